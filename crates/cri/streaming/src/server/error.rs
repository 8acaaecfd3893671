//! Errors of starting the streaming server.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use orlop_listen::TlsError;

/// An error that prevents the streaming server from starting.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address is in use or does not belong to this host.
    #[error("cannot listen for streaming clients on {address}; choose another address or port")]
    Bind {
        /// The listening address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A certificate or key could not be read.
    #[error("reading {what} of the streaming server from {path}")]
    TlsFile {
        /// The expected content of the file.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error in the file.
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    /// The certificate and key are not valid for a server.
    #[error("setting up TLS for the streaming server")]
    Tls(#[source] rustls::Error),
    /// The client CA is not valid.
    #[error("setting up client authentication for the streaming server")]
    ClientAuthority(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<TlsError> for ServerError {
    fn from(error: TlsError) -> Self {
        match error {
            TlsError::File { what, path, source } => Self::TlsFile { what, path, source },
            TlsError::Server(source) => Self::Tls(source),
            TlsError::ClientAuthority { source, .. } => Self::ClientAuthority(Box::new(source)),
        }
    }
}
