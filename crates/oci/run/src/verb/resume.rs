//! `resume`: thaws a paused container.

use super::command::{Call, HELP, Verb};
use crate::args::FlagsEnd;
use crate::error::{Error, Result};
use crate::state::Status;

pub(super) const VERB: Verb = Verb {
    name: "resume",
    about: "resume all processes in a paused container",
    arguments: "CONTAINER",
    flags: &[HELP],
    flags_end: FlagsEnd::Nowhere,
    enters: false,
    failed: None,
    run,
};

fn run(call: &Call<'_>) -> Result<u8> {
    let (dir, state) = call.known()?;
    call.may_lack_cgroups("resume");
    match state.status(&dir) {
        Status::Paused => state.cgroup.thaw().map(|()| 0),
        _ => Err(Error::new("container not paused")),
    }
}
