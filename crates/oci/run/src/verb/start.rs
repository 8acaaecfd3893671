//! `start`: starts a created container.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::command::{Call, HELP, Verb};
use crate::args::FlagsEnd;
use crate::bundle::NO_PROCESS;
use crate::error::{Error, Result};
use crate::hooks;
use crate::state::{State, StateDir, Status, open_fifo};
use crate::sys::poll_in;

pub(super) const VERB: Verb = Verb {
    name: "start",
    about: "start a created container",
    arguments: "CONTAINER",
    flags: &[HELP],
    flags_end: FlagsEnd::Nowhere,
    enters: false,
    failed: None,
    run,
};

/// Maximum time for a waiting process to continue.
const PATIENCE: Duration = Duration::from_secs(10);

fn run(call: &Call<'_>) -> Result<u8> {
    let (dir, state) = call.known()?;
    let (status, init) = state.look(&dir);
    match (status, &init) {
        (Status::Created, _) if state.never_starts => return Err(Error::new(NO_PROCESS)),
        (Status::Created, Some(init)) => start(&dir, &state, init.as_fd())?,
        (Status::Stopped | Status::Creating | Status::Created, _) => {
            return Err(Error::new("cannot start a container that has stopped"));
        }
        (Status::Running, _) => {
            return Err(Error::new("cannot start an already running container"));
        }
        (Status::Paused, _) => return Err(Error::new("cannot start a paused container")),
    }
    Ok(0)
}

/// Opens the fifo in which the container's process waits, and checks that it continues.
pub(super) fn start(dir: &StateDir, state: &State, init: BorrowedFd<'_>) -> Result<()> {
    let ended = || Error::new("cannot start a container that has stopped");
    let fifo = open_fifo(dir)?;
    let begun = Instant::now();
    loop {
        // Without a writer there is nothing to read, and the read would not block.
        if poll_in(fifo.as_fd(), 20)
            && rustix::io::read(&fifo, &mut [0; 16]).is_ok_and(|count| count > 0)
        {
            break;
        }
        if poll_in(init, 0) {
            return Err(ended());
        }
        if begun.elapsed() > PATIENCE {
            return Err(Error::new(
                "timed out waiting for the container process to start",
            ));
        }
    }
    // The missing fifo marks the container as running.
    let _ = std::fs::remove_file(dir.fifo());
    if !state.poststart.is_empty() {
        hooks::run(
            &state.poststart,
            "poststart",
            &state.document(Status::Running),
        )?;
    }
    Ok(())
}
