//! How many files may be open: the daemon takes what it may have, and pods have what the daemon was
//! started with, as if it had taken nothing. Many programs are slow, or break, where the number is
//! large.

use std::io;
use std::sync::OnceLock;

use orlop_keeper_protocol::OpenFiles;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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

/// What a pod's processes would have had.
pub(crate) fn open_files_of_pods() -> Option<OpenFiles> {
    let Rlimit { current, maximum } = *STARTED_WITH.get()?;
    Some(OpenFiles {
        current: current.unwrap_or(u64::MAX),
        maximum: maximum.unwrap_or(u64::MAX),
    })
}
