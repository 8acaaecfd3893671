//! Why the streaming server can't be had.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use orlop_listen::TlsError;

/// Why the streaming server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address is taken or not ours.
    #[error("cannot listen for streaming clients on {address}; choose another address or port")]
    Bind {
        /// Where it should have listened.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A certificate or key could not be read.
    #[error("reading {what} of the streaming server from {path}")]
    TlsFile {
        /// What the file should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    /// The certificate and the key do not make a server.
    #[error("setting up TLS for the streaming server")]
    Tls(#[source] rustls::Error),
    /// The client authority can't be used.
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
