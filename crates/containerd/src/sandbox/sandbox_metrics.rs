//! `SandboxMetrics`: what the pod itself uses, its keeper.

use std::sync::Arc;

use orlop_ttrpc::{Writer, text};

use crate::Result;
use crate::metrics;
use crate::shim::Shim;
use crate::tasks::{now, timestamp};

pub(super) fn call(shim: &Arc<Shim>, request: &[u8]) -> Result<Vec<u8>> {
    let id = text(request, 1);
    let cgroup = shim.tasks.lock().get(&id)?.cgroup.clone();
    let any = metrics::of(cgroup.as_ref())?;
    let metric = Writer::default()
        .message(1, &timestamp(now()))
        .text(2, &id)
        .message(3, &any);
    Ok(Writer::default().message(1, &metric.done()).done())
}
