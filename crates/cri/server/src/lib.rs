//! What the CRI services of all backends share.
//!
//! * `attachment`: what a pod asks of the network
//! * `events`: who listens to what happens
//! * `fault`: why a call failed, and the gRPC status of that
//! * `error`: the errors that all backends have
//! * `finding`: what both examine
//! * `frame`: CRI's services, each call handed to a file of the backend's
//! * `joins`: operations that several callers share
//! * `sessions`: exec, attach and port-forward
//! * `until_end`: a connection to a pod's port, which ends with the pod
//! * `exec_output`: what is kept of a command's output
//! * `timeline`: where the time of a pod's start, or of a pull, went
//! * `usage`: what cgroups, namespaces and layers count, in CRI's words

pub mod attachment;
pub mod clock;
mod error;
pub mod events;
pub mod exec_output;
pub mod fault;
pub mod finding;
pub mod frame;
pub mod joins;
pub mod sessions;
pub mod timeline;
pub mod until_end;
pub mod usage;
