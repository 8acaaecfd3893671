//! The response to an unimplemented call.

use std::fmt::Display;

use tonic::Status;

/// Returns an `UNIMPLEMENTED` status that names the call (a [`crate::Rpc`], or a name of another service).
pub fn unimplemented(rpc: impl Display) -> Status {
    Status::unimplemented(format!("{rpc} is not implemented by this runtime"))
}
