//! Why a streaming client did not get what it asked for.

use std::io;

use http::StatusCode;

/// Why a session could not be had, or broke off.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Not an URL that can be followed.
    #[error("{0:?} is not an http or https URL with a host")]
    Url(String),
    /// The server could not be reached.
    #[error("connecting to the streaming server at {address}")]
    Connect {
        /// Host and port.
        address: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The server did not answer in time.
    #[error("the streaming server at {0} did not answer in time")]
    Timeout(String),
    /// An https URL, and no TLS settings to follow it with.
    #[error("the streaming server requires TLS; specify the certificate authority to trust")]
    NoTls,
    /// The request failed below HTTP's level.
    #[error("requesting a connection upgrade from the streaming server")]
    Http(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server answered with something else than an upgrade.
    #[error("the streaming server rejected the request with {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// What the server said.
        message: String,
    },
    /// The server chose something that was not offered.
    #[error("the streaming server chose the protocol {0:?}, which was not offered")]
    Protocol(String),
    /// The server takes no stream of a kind that is needed.
    #[error("the streaming server did not open the {stream} stream: {reason}")]
    Stream {
        /// Which stream.
        stream: &'static str,
        /// Why.
        reason: String,
    },
    /// The session failed at the other end.
    #[error("{0}")]
    Remote(String),
    /// The connection ended before the result was told.
    #[error("the connection to the streaming server was lost")]
    Lost,
    /// Reading or writing at this end.
    #[error("copying the session's {what}")]
    Local {
        /// Which of the streams.
        what: &'static str,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
}
