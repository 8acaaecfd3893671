//! Errors of a streaming client.

use std::io;

use http::StatusCode;

/// An error that prevents or ends a session.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL is not supported.
    #[error("{0:?} is not an http or https URL with a host")]
    Url(String),
    /// The server is not reachable.
    #[error("connecting to the streaming server at {address}")]
    Connect {
        /// Host and port.
        address: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The server did not respond in time.
    #[error("the streaming server at {0} did not answer in time")]
    Timeout(String),
    /// The URL is https, and there are no TLS settings.
    #[error("the streaming server requires TLS; specify the certificate authority to trust")]
    NoTls,
    /// The request failed below the HTTP level.
    #[error("requesting a connection upgrade from the streaming server")]
    Http(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server responded with something other than an upgrade.
    #[error("the streaming server rejected the request with {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// The server's message.
        message: String,
    },
    /// The server selected a protocol that was not offered.
    #[error("the streaming server chose the protocol {0:?}, which was not offered")]
    Protocol(String),
    /// The server rejected a required stream.
    #[error("the streaming server did not open the {stream} stream: {reason}")]
    Stream {
        /// The stream.
        stream: &'static str,
        /// The reason.
        reason: String,
    },
    /// The session failed on the server.
    #[error("{0}")]
    Remote(String),
    /// The connection ended before the result arrived.
    #[error("the connection to the streaming server was lost")]
    Lost,
    /// Reading or writing on the client failed.
    #[error("copying the session's {what}")]
    Local {
        /// The stream.
        what: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}
