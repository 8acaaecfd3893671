//! OCI runtimes, called by their command line.

mod call;
mod detect;
mod direct;
mod log;
mod oci;
mod protected;

pub(crate) use call::failure_of_call;
pub use detect::{Candidate, Detected, Rejection, TRIAL_PREFIX, detect};
pub use direct::{CheckpointOptions, RuntimeState, criu};
pub use oci::OciRuntime;
pub use protected::{ProtectedProgram, ProtectedPrograms};
