//! The init of a PID namespace that the pod's containers share.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, wait};
use rustix::thread::set_name;

use crate::sys::{process, signal};

/// Makes a process that is the first of a new PID namespace. It collects what is orphaned there,
/// and ends with the keeper or when it is told to, and the whole namespace with it.
pub(crate) fn spawn(parent: process::Parent) -> Result<Pid, String> {
    match process::fork_into_pid_namespace(parent) {
        Ok(process::Fork::Parent(pid)) => Ok(pid),
        Ok(process::Fork::Child) => serve(),
        Err(error) => Err(format!("making the pod's PID namespace: {error}")),
    }
}

fn serve() -> ! {
    let prepared = prepare();
    if prepared.is_err() {
        process::exit_now(1);
    }
    loop {
        match signal::wait() {
            libc::SIGTERM | libc::SIGINT => process::exit_now(0),
            libc::SIGCHLD => reap(),
            _ => {}
        }
    }
}

fn prepare() -> Result<(), Errno> {
    // Blocked before anything else: only a blocked signal reaches an init that has no handler.
    signal::block_all().map_err(|_| Errno::INVAL)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_name(c"pod-init")?;
    // Its errors would go to a file that it must not keep.
    let null = rustix::fs::open(
        "/dev/null",
        rustix::fs::OFlags::RDWR,
        rustix::fs::Mode::empty(),
    )?;
    rustix::stdio::dup2_stderr(null.as_fd())?;
    drop(null);
    process::close_from(3).map_err(|_| Errno::BADF)
}

fn reap() {
    while matches!(wait(WaitOptions::NOHANG), Ok(Some(_)) | Err(Errno::INTR)) {}
}
