//! Calls to the CRI endpoint.

use std::time::Duration;

use orlop_cri_api::Endpoint;
use orlop_cri_api::client::{ClientError, ClientOptions, Connection};
use serde_json::Value;
use tonic::{Code, Status};

/// Timeout of a call.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Message size limit. Runtimes without streaming lists send the list of a whole node in one message.
const LARGEST_MESSAGE: usize = 64 << 20;

/// Data for a page, or the reason why there is none.
pub(crate) type Told = Result<Value, AskError>;

/// Error of a call to the endpoint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// The endpoint does not respond.
    #[error("{0}")]
    Gone(String),
    /// The object does not exist.
    #[error("{0}")]
    NotThere(String),
    /// The endpoint does not know the call.
    #[error("not available from this endpoint: {0}")]
    Unknown(String),
    /// The request is invalid.
    #[error("{0}")]
    Wrong(String),
    /// The call timed out.
    #[error("{0}")]
    Late(String),
    /// The call failed.
    #[error("{0}")]
    Failed(String),
}

impl AskError {
    /// Maps a gRPC code, for all clients alike.
    fn of(code: Code, text: String) -> Self {
        match code {
            Code::Unavailable | Code::Cancelled => Self::Gone(text),
            Code::DeadlineExceeded => Self::Late(text),
            Code::NotFound => Self::NotThere(text),
            Code::Unimplemented => Self::Unknown(text),
            _ => Self::Failed(text),
        }
    }

    /// Returns whether the endpoint does not respond.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Gone(_))
    }

    /// Returns whether the call timed out.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self, Self::Late(_))
    }

    /// Returns whether the endpoint does not know the call.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

impl From<ClientError> for AskError {
    fn from(error: ClientError) -> Self {
        let text = error.to_string();
        // containerd and CRI-O report a missing object only in the message, not in the code.
        match error.code() {
            Code::Unknown if text.contains("not found") => Self::NotThere(text),
            code => Self::of(code, text),
        }
    }
}

impl From<Status> for AskError {
    fn from(status: Status) -> Self {
        let text = match status.message() {
            "" => format!("{:?}", status.code()),
            message => message.to_owned(),
        };
        Self::of(status.code(), text)
    }
}

/// Creates a connection that connects at the first call, and again when it breaks.
pub(crate) fn connect(endpoint: Endpoint) -> Connection {
    let options = ClientOptions {
        timeout: PATIENCE,
        max_message: LARGEST_MESSAGE,
        ..ClientOptions::default()
    };
    Connection::new(endpoint, options)
}

/// Awaits a call of one of orlop's own services, with the usual timeout.
pub(crate) async fn own<T>(
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, AskError> {
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(answer) => Ok(answer?.into_inner()),
        Err(_) => Err(late(PATIENCE)),
    }
}

/// Awaits a call for one of many objects, with this timeout.
pub(crate) async fn soon<T>(
    patience: Duration,
    call: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, AskError> {
    match tokio::time::timeout(patience, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(late(patience)),
    }
}

fn late(patience: Duration) -> AskError {
    AskError::Late(format!("the endpoint has not responded for {patience:?}"))
}
