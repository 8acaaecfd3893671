//! `pause`: freezes all processes of a container.

use super::command::{Call, HELP, Verb};
use crate::args::FlagsEnd;
use crate::error::{Error, Result};
use crate::state::Status;

pub(super) const VERB: Verb = Verb {
    name: "pause",
    about: "suspend all processes in a container",
    arguments: "CONTAINER",
    flags: &[HELP],
    flags_end: FlagsEnd::Nowhere,
    enters: false,
    failed: None,
    run,
};

fn run(call: &Call<'_>) -> Result<u8> {
    let (dir, state) = call.known()?;
    call.may_lack_cgroups("pause");
    match state.status(&dir) {
        Status::Created | Status::Running => state.cgroup.freeze().map(|()| 0),
        _ => Err(Error::new("container not running")),
    }
}
