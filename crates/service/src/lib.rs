//! What the CRI services of all backends share.
//!
//! * `events`: who listens to what happens
//! * `exec_output`: what is kept of a command's output
//! * `timeline`: where the time of a pod's start, or of a pull, went
//! * `usage`: what cgroups, namespaces and layers count, in CRI's words

pub mod clock;
pub mod events;
pub mod exec_output;
pub mod timeline;
pub mod usage;
