//! A process in a shim that a proxy stands for.

use crate::state_dir::{PodDir, TaskDir};

/// The identity of the process.
pub(crate) struct Process {
    pub(crate) task: TaskDir,
    pub(crate) pod: PodDir,
    /// The id of an exec command; empty for the container's own process.
    pub(crate) exec: String,
    pub(crate) terminal: bool,
}
