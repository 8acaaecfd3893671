//! What can go wrong with a call.

use std::time::Duration;

use tonic::{Code, Status};

use super::ConnectError;
use crate::Rpc;

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers on the endpoint.
    #[error(transparent)]
    Unreachable(#[from] ConnectError),
    /// The runtime answered with an error.
    #[error("{rpc} failed: {message} ({code:?})", message = .status.message(), code = .status.code())]
    Call {
        /// The call.
        rpc: Rpc,
        /// What came back.
        status: Box<Status>,
    },
    /// The connection broke before the answer was there. What was asked for may be done or not.
    #[error(
        "{rpc} failed: the connection was lost ({reason}); if the runtime stopped or restarted, \
         check the result and try again"
    )]
    Broken {
        /// The call.
        rpc: Rpc,
        /// What the transport says of it.
        reason: String,
    },
    /// The call took longer than it may. The runtime may still be at it.
    #[error("{rpc} timed out after {after:?}")]
    Deadline {
        /// The call.
        rpc: Rpc,
        /// How long it was waited for.
        after: Duration,
    },
    /// A command took longer than it may and was killed.
    #[error("the command did not finish within {after:?}")]
    CommandTimedOut {
        /// How long it was given.
        after: Duration,
    },
    /// The runtime left out what the interface demands.
    #[error("the runtime's response to {rpc} has no {field}")]
    Incomplete {
        /// The call.
        rpc: Rpc,
        /// What is missing.
        field: &'static str,
    },
    /// The caller asked for something that can't be.
    #[error("cannot call {rpc}: {reason}")]
    Argument {
        /// The call.
        rpc: Rpc,
        /// What is wrong.
        reason: &'static str,
    },
}

impl ClientError {
    /// The status code this amounts to.
    pub fn code(&self) -> Code {
        match self {
            Self::Unreachable(_) | Self::Broken { .. } => Code::Unavailable,
            Self::Call { status, .. } => status.code(),
            Self::Deadline { .. } | Self::CommandTimedOut { .. } => Code::DeadlineExceeded,
            Self::Incomplete { .. } => Code::Internal,
            Self::Argument { .. } => Code::InvalidArgument,
        }
    }

    /// Whether what was asked for isn't there.
    pub fn is_not_found(&self) -> bool {
        self.code() == Code::NotFound
    }

    /// What the runtime said, without anything around it; the kubelet knows some errors by how
    /// this begins.
    pub fn runtime_message(&self) -> Option<&str> {
        match self {
            Self::Call { status, .. } => Some(status.message()),
            _ => None,
        }
    }
}
