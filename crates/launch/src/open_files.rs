//! How many files may be open: the daemon takes what it may have, and pods have what the daemon was
//! started with, as if it had taken nothing. Many programs are slow, or break, where the number is
//! large.

use std::io;
use std::sync::OnceLock;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// What the daemon was started with.
static STARTED_WITH: OnceLock<Rlimit> = OnceLock::new();

/// Lets this process open as many files as it may; processes of pods are given what held before.
pub fn raise_open_files() -> io::Result<()> {
    let now = getrlimit(Resource::Nofile);
    let started_with = STARTED_WITH.get_or_init(|| now);
    let raised = Rlimit {
        current: started_with.maximum,
        maximum: started_with.maximum,
    };
    Ok(setrlimit(Resource::Nofile, raised)?)
}

/// Gives a process of a pod what it would have had.
pub(crate) fn restore_open_files(pid: u32) -> io::Result<()> {
    let Some(limit) = STARTED_WITH.get() else {
        return Ok(());
    };
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    prlimit(pid, Resource::Nofile, *limit)?;
    Ok(())
}
