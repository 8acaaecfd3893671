//! A process inside a shim that a local process stands for.

use crate::state_dir::{PodDir, TaskDir};

/// A process to stand for.
pub(crate) struct Process {
    pub(crate) task: TaskDir,
    pub(crate) pod: PodDir,
    /// The name of a command in the container; empty for the container's own process.
    pub(crate) exec: String,
    pub(crate) terminal: bool,
}
