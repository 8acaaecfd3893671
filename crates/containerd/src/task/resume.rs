//! `Resume`: lets a container go on that stood still.

use std::sync::Arc;

use orlop_ttrpc::text;

use super::pause::change;
use crate::Result;
use crate::events::Event;
use crate::shim::Shim;
use crate::tasks::Phase;

pub(super) fn call(shim: &Arc<Shim>, request: &[u8]) -> Result<Vec<u8>> {
    let id = text(request, 1);
    change(shim, &id, Phase::Paused, Phase::Running, "resume")?;
    shim.publisher.tell(&Event::Resumed { id: &id });
    Ok(Vec::new())
}
