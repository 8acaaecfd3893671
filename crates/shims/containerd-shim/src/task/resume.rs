//! `Resume`: thaws a frozen container.

use std::sync::Arc;

use orlop_containerd_api::task::ResumeRequest;

use super::pause::change;
use crate::error::Result;
use crate::events::Event;
use crate::shim::Shim;
use crate::tasks::Phase;

pub(super) fn call(shim: &Arc<Shim>, request: ResumeRequest) -> Result<()> {
    let id = request.id;
    change(shim, &id, Phase::Paused, Phase::Running, "resume")?;
    shim.publisher.tell(&Event::Resumed { id: &id });
    Ok(())
}
