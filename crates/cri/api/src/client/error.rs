//! Errors of a call.

use std::time::Duration;

use tonic::{Code, Status};

use super::ConnectError;
use crate::Rpc;

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No server answers on the endpoint.
    #[error(transparent)]
    Unreachable(#[from] ConnectError),
    /// The runtime returned an error.
    #[error("{rpc} failed: {message} ({code:?})", message = .status.message(), code = .status.code())]
    Call {
        /// The call.
        rpc: Rpc,
        /// The status that the runtime returned.
        status: Box<Status>,
    },
    /// The connection broke before the response. The runtime may or may not have completed the request.
    #[error(
        "{rpc} failed: the connection was lost ({reason}); if the runtime stopped or restarted, \
         check the result and try again"
    )]
    Broken {
        /// The call.
        rpc: Rpc,
        /// The transport's message.
        reason: String,
    },
    /// The call exceeded its deadline. The runtime may still be working on it.
    #[error("{rpc} timed out after {after:?}")]
    Deadline {
        /// The call.
        rpc: Rpc,
        /// The deadline.
        after: Duration,
    },
    /// A command exceeded its timeout and was killed.
    #[error("the command did not finish within {after:?}")]
    CommandTimedOut {
        /// The timeout.
        after: Duration,
    },
    /// The response lacks a field that the interface requires.
    #[error("the runtime's response to {rpc} has no {field}")]
    Incomplete {
        /// The call.
        rpc: Rpc,
        /// The missing field.
        field: &'static str,
    },
    /// An argument of the call is invalid.
    #[error("cannot call {rpc}: {reason}")]
    Argument {
        /// The call.
        rpc: Rpc,
        /// The reason.
        reason: &'static str,
    },
}

impl ClientError {
    /// Returns the gRPC status code of the error.
    pub fn code(&self) -> Code {
        match self {
            Self::Unreachable(_) | Self::Broken { .. } => Code::Unavailable,
            Self::Call { status, .. } => status.code(),
            Self::Deadline { .. } | Self::CommandTimedOut { .. } => Code::DeadlineExceeded,
            Self::Incomplete { .. } => Code::Internal,
            Self::Argument { .. } => Code::InvalidArgument,
        }
    }

    /// Whether the requested object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Code::NotFound
    }

    /// Returns the runtime's message alone; the kubelet recognises some errors by its prefix.
    pub fn runtime_message(&self) -> Option<&str> {
        match self {
            Self::Call { status, .. } => Some(status.message()),
            _ => None,
        }
    }
}
