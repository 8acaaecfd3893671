//! Hooks that the container's process runs itself.

use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::plan::{HookStep, HookSteps};
use crate::report::{Fault, Step};
use crate::sys::{Image, Side, execute, exit_now, fork, pidfd_signal, poll_in, wait_for};

/// Runs a stage's hooks in order; `env` is that of the container's process. The error number of a failed hook is its
/// exit code plus [`BAD_END`].
pub(super) fn run(hooks: &HookSteps, env: &Image, at: Step) -> Result<(), Fault> {
    for hook in &hooks.steps {
        one(hook, hooks, env).map_err(|errno| Fault {
            step: at,
            index: hook.index,
            errno,
        })?;
    }
    Ok(())
}

fn one(hook: &HookStep, hooks: &HookSteps, env: &Image) -> rustix::io::Result<()> {
    if let Some(state) = &hooks.state {
        // All holders of the file share the offset.
        seek(state, SeekFrom::Start(0))?;
    }
    let process = match fork()? {
        Side::Parent(process) => process,
        Side::Child => {
            if let Some(state) = &hooks.state {
                let _ = rustix::stdio::dup2_stdin(state.as_fd());
            }
            if let Some(output) = &hooks.output {
                let _ = rustix::stdio::dup2_stdout(output.as_fd());
                let _ = rustix::stdio::dup2_stderr(output.as_fd());
            }
            let _ = execute(&hook.program, &hook.args, hook.env.as_ref().unwrap_or(env));
            exit_now(127)
        }
    };
    if let Some(limit) = hook.limit
        && !poll_in(process.pidfd.as_fd(), limit)
    {
        let _ = pidfd_signal(process.pidfd.as_fd(), libc::SIGKILL);
        let _ = wait_for(process.pid);
        return Err(Errno::TIMEDOUT);
    }
    debug_assert!(process.pidfd.as_raw_fd() >= 0);
    match wait_for(process.pid)? {
        0 => Ok(()),
        code => Err(Errno::from_raw_os_error(BAD_END + code)),
    }
}

/// Error numbers above this are exit codes of a hook.
pub(crate) const BAD_END: i32 = 3000;
