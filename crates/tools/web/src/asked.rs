//! The endpoint, as its clients see it.

use std::time::Duration;

use orlop_cri_api::Endpoint;
use orlop_cri_api::client::{ClientError, ClientOptions, Connection};
use serde_json::Value;
use tonic::{Code, Status};

/// What a call may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Lists of whole nodes come in one message from runtimes that can't stream them.
const LARGEST_MESSAGE: usize = 64 << 20;

/// What a page is told, or why it is told nothing.
pub(crate) type Told = Result<Value, AskError>;

/// Why the endpoint has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// Nobody answers.
    #[error("{0}")]
    Gone(String),
    /// It has no such thing.
    #[error("{0}")]
    NotThere(String),
    /// It does not know the call.
    #[error("not available from this endpoint: {0}")]
    Unknown(String),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Wrong(String),
    /// Somebody is there, and takes too long.
    #[error("{0}")]
    Late(String),
    /// It failed.
    #[error("{0}")]
    Failed(String),
}

impl AskError {
    /// The same whoever the client is.
    fn of(code: Code, text: String) -> Self {
        match code {
            Code::Unavailable | Code::Cancelled => Self::Gone(text),
            Code::DeadlineExceeded => Self::Late(text),
            Code::NotFound => Self::NotThere(text),
            Code::Unimplemented => Self::Unknown(text),
            _ => Self::Failed(text),
        }
    }

    /// Whether nobody answers.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Gone(_))
    }

    /// Whether it takes too long.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self, Self::Late(_))
    }

    /// Whether the endpoint does not know the call.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

impl From<ClientError> for AskError {
    fn from(error: ClientError) -> Self {
        let text = error.to_string();
        // containerd and CRI-O have no code for what is not there but words.
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

/// A connection to the endpoint, made at the first call and again when it breaks.
pub(crate) fn connect(endpoint: Endpoint) -> Connection {
    let options = ClientOptions {
        timeout: PATIENCE,
        max_message: LARGEST_MESSAGE,
        ..ClientOptions::default()
    };
    Connection::new(endpoint, options)
}

/// The answer of one of orlop's own services, within the usual patience.
pub(crate) async fn own<T>(
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, AskError> {
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(answer) => Ok(answer?.into_inner()),
        Err(_) => Err(late(PATIENCE)),
    }
}

/// The answer to a call for one thing of many, which may take no longer than this.
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
