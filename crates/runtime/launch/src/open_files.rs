//! Limits of open files. The daemon raises its own limit to the maximum, while pods get the limits that the daemon was
//! started with. Many programs are slow or break with a high limit.

use std::io;
use std::sync::OnceLock;

use orlop_keeper_protocol::OpenFiles;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Limits at the daemon's start.
static STARTED_WITH: OnceLock<Rlimit> = OnceLock::new();

/// Raises this process's limit of open files to the maximum; pods get the original limits.
pub fn raise_open_files() -> io::Result<()> {
    let now = getrlimit(Resource::Nofile);
    let started_with = STARTED_WITH.get_or_init(|| now);
    let raised = Rlimit {
        current: started_with.maximum,
        maximum: started_with.maximum,
    };
    Ok(setrlimit(Resource::Nofile, raised)?)
}

/// Returns the limits for the processes of pods.
pub(crate) fn open_files_of_pods() -> Option<OpenFiles> {
    let Rlimit { current, maximum } = *STARTED_WITH.get()?;
    Some(OpenFiles {
        current: current.unwrap_or(u64::MAX),
        maximum: maximum.unwrap_or(u64::MAX),
    })
}
