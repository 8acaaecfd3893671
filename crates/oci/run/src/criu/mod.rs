//! Containers written out and restored by CRIU, the program of that name.
//!
//! ```text
//! dump:    options + what is not the container's own ─► criu ─► images, descriptors.json
//! restore: cgroup ─► criu, in it and in mounts of its own ─► processes, of which we are the parent
//! ```
//!
//! CRIU is told what to do by messages ([`rpc`], [`request`]) over a pair of sockets ([`session`]), and
//! says where it is by notices, each of which waits for an answer.

mod dump;
mod external;
mod quote;
mod request;
mod restore;
mod session;
mod stage;

/// The messages, generated from `proto/criu`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod rpc {
    include!(concat!(env!("OUT_DIR"), "/criu.rs"));
}

use std::path::PathBuf;

pub(crate) use dump::{directory, dump};
pub(crate) use request::CGROUP_MODES;
pub(crate) use restore::restore;
pub(crate) use rpc::CriuCgMode;

/// What is asked for when a container is written out or restored.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Where the images are.
    pub(crate) images: PathBuf,
    /// Where logs go, if not there.
    pub(crate) work: Option<PathBuf>,
    /// Images of an earlier time, seen from there.
    pub(crate) parent: Option<String>,
    pub(crate) leave_running: bool,
    pub(crate) tcp_established: bool,
    pub(crate) tcp_skip_in_flight: bool,
    pub(crate) link_remap: bool,
    pub(crate) ext_unix_sk: bool,
    pub(crate) shell_job: bool,
    pub(crate) file_locks: bool,
    /// Only memory, from a container that runs on.
    pub(crate) pre_dump: bool,
    pub(crate) auto_dedup: bool,
    pub(crate) lazy_pages: bool,
    /// The descriptor by which it is told that pages can be fetched.
    pub(crate) status_fd: Option<i32>,
    pub(crate) page_server: Option<(String, i32)>,
    pub(crate) lsm_profile: String,
    pub(crate) lsm_mount_context: String,
    /// What is done about cgroups.
    pub(crate) cgroups_mode: CriuCgMode,
}

impl Options {
    /// Where a log of CRIU's goes.
    fn log_dir(&self) -> &std::path::Path {
        self.work.as_deref().unwrap_or(&self.images)
    }
}

/// The file beside the images that says what a container's standard streams were.
const DESCRIPTORS: &str = "descriptors.json";
/// The most that is read of it.
const DESCRIPTORS_MAX: u64 = 64 << 10;
