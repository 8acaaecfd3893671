//! `Stats`: what a container uses.

use std::sync::Arc;

use orlop_ttrpc::{Writer, text};

use crate::Result;
use crate::metrics;
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: &[u8]) -> Result<Vec<u8>> {
    let id = text(request, 1);
    let cgroup = shim.tasks.lock().get(&id)?.cgroup.clone();
    let any = metrics::of(cgroup.as_ref())?;
    Ok(Writer::default().message(1, &any).done())
}
