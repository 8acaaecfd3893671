//! Parts of the CRI services that all backends share.
//!
//! * `attachment`: the network attachment that a pod requests
//! * `events`: pod and container events and their subscribers
//! * `fault`: conversion of errors to a gRPC status
//! * `error`: the errors that all backends have
//! * `finding`: node checks of both backends
//! * `frame`: the CRI services; each call is delegated to a file of the backend
//! * `joins`: operations that several callers share
//! * `sessions`: exec, attach and port-forward
//! * `until_end`: a connection to a pod's port, which ends with the pod
//! * `exec_output`: the buffered output of a command
//! * `timeline`: durations of the steps of a pod's start or of a pull
//! * `usage`: statistics of cgroups, namespaces and layers in the CRI's format

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
