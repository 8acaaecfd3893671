//! `delete`: removes a container and everything made for it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::command::{Call, HELP, Verb};
use crate::args::{FlagsEnd, switch};
use crate::error::{Error, Result};
use crate::hooks;
use crate::state::{State, StateDir, Status};
use crate::sys::{pidfd_signal, poll_in};

pub(super) const VERB: Verb = Verb {
    name: "delete",
    about: "delete the resources of a stopped container",
    arguments: "CONTAINER",
    flags: &[
        HELP,
        switch(
            "force",
            Some('f'),
            "kill the container if it is still running; ignore a container that does not exist",
        ),
    ],
    flags_end: FlagsEnd::Nowhere,
    enters: false,
    failed: None,
    run,
};

/// Maximum time for a killed process to end.
const PATIENCE: Duration = Duration::from_secs(10);

fn run(call: &Call<'_>) -> Result<u8> {
    let force = call.parsed.is_on("force")?;
    let dir = call.container()?;
    if force && !dir.exists() {
        return Ok(0);
    }
    let state = match dir.load() {
        // The process that created it was killed before it made anything.
        Err(_) if force && dir.exists() => return dir.remove().map(|()| 0),
        state => state?,
    };
    match state.status(&dir) {
        Status::Stopped | Status::Created | Status::Creating => {}
        status if !force => {
            return Err(Error::new(format!(
                "cannot delete container {} that is not stopped: {}",
                state.id,
                status.as_str()
            )));
        }
        _ => {}
    }
    call.log.debug(|| {
        format!(
            "removing {:?} and {}",
            state.cgroup.paths(),
            dir.path().display()
        )
    });
    destroy(&dir, &state, force)?;
    Ok(0)
}

/// Kills the remaining processes of a container, and removes everything made for it.
pub(super) fn destroy(dir: &StateDir, state: &State, force: bool) -> Result<()> {
    if let Some(init) = state.init() {
        let _ = pidfd_signal(init.as_fd(), libc::SIGKILL);
        if force {
            // A tracer in the cgroup can block all processes that it traces: for example a CRIU whose caller was
            // killed.
            let _ = state.cgroup.kill_all(rustix::process::Signal::KILL);
        }
        let thawed = Instant::now();
        while !poll_in(init.as_fd(), 10) {
            // A frozen process cannot end, nor can an init whose children are frozen.
            let _ = state.cgroup.thaw_all();
            if thawed.elapsed() > PATIENCE {
                return Err(Error::new("container init still running"));
            }
        }
    }
    let own_processes = state.namespaces & libc::CLONE_NEWPID as u64 != 0;
    if !own_processes || state.pid == 0 || force {
        // Nothing else ends processes in the host's PID namespace, or those being created.
        let _ = state.cgroup.kill_all(rustix::process::Signal::KILL);
    }
    state.cgroup.remove()?;
    if let Some(rdt) = &state.rdt {
        rdt.remove()?;
    }
    dir.remove()?;
    hooks::run(
        &state.poststop,
        "poststop",
        &state.document(Status::Stopped),
    )
}
