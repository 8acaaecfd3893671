//! What is asked for when a container is written out or restored.

use std::path::{Path, PathBuf};

use super::rpc::CriuCgMode;

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
    pub(super) fn log_dir(&self) -> &Path {
        self.work.as_deref().unwrap_or(&self.images)
    }
}

/// The file beside the images that says what a container's standard streams were.
pub(super) const DESCRIPTORS: &str = "descriptors.json";
/// The most that is read of it.
pub(super) const DESCRIPTORS_MAX: u64 = 64 << 10;
