//! The answer to a call that isn't built.

use std::fmt::Display;

use tonic::Status;

/// An `UNIMPLEMENTED` that names the call (a [`crate::Rpc`], or a name of another service).
pub fn unimplemented(rpc: impl Display) -> Status {
    Status::unimplemented(format!("{rpc} is not implemented by this runtime"))
}
