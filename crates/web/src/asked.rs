//! The endpoint, as its clients see it.

use std::time::Duration;

use orlop_cri::Endpoint;
use orlop_cri::client::{ClientError, ClientOptions, Connection};
use tonic::{Code, Status};

/// What a call may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Lists of whole nodes come in one message from runtimes that can't stream them.
const LARGEST_MESSAGE: usize = 64 << 20;

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
    #[error("the endpoint cannot tell: {0}")]
    Unknown(String),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Wrong(String),
    /// It failed.
    #[error("{0}")]
    Failed(String),
}

impl AskError {
    /// The same whoever the client is.
    fn of(code: Code, text: String) -> Self {
        match code {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => Self::Gone(text),
            Code::NotFound => Self::NotThere(text),
            Code::Unimplemented => Self::Unknown(text),
            _ => Self::Failed(text),
        }
    }

    /// Whether nobody answers.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Gone(_))
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
        Err(_) => Err(AskError::Gone(format!(
            "the endpoint has not answered for {PATIENCE:?}"
        ))),
    }
}
