//! Options of a checkpoint or restore.

use std::path::{Path, PathBuf};

use super::rpc::CriuCgMode;

/// Options of a checkpoint or restore.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// The directory of the images.
    pub(crate) images: PathBuf,
    /// Directory for logs, if not the image directory.
    pub(crate) work: Option<PathBuf>,
    /// Earlier images, relative to the image directory.
    pub(crate) parent: Option<String>,
    pub(crate) leave_running: bool,
    pub(crate) tcp_established: bool,
    pub(crate) tcp_skip_in_flight: bool,
    pub(crate) link_remap: bool,
    pub(crate) ext_unix_sk: bool,
    pub(crate) shell_job: bool,
    pub(crate) file_locks: bool,
    /// Whether only memory is dumped while the container runs on.
    pub(crate) pre_dump: bool,
    pub(crate) auto_dedup: bool,
    pub(crate) lazy_pages: bool,
    /// The descriptor that signals when pages can be fetched.
    pub(crate) status_fd: Option<i32>,
    pub(crate) page_server: Option<(String, i32)>,
    pub(crate) lsm_profile: String,
    pub(crate) lsm_mount_context: String,
    /// CRIU's mode for cgroups.
    pub(crate) cgroups_mode: CriuCgMode,
}

impl Options {
    /// Returns the directory of CRIU's logs.
    pub(super) fn log_dir(&self) -> &Path {
        self.work.as_deref().unwrap_or(&self.images)
    }
}

/// The file next to the images that records a container's standard streams.
pub(super) const DESCRIPTORS: &str = "descriptors.json";
/// Maximum size of that file.
pub(super) const DESCRIPTORS_MAX: u64 = 64 << 10;
