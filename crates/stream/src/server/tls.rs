//! TLS with certificates that may be renewed while the server runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::error::ServerError;

/// PEM files for TLS. They are read again when they have changed on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with those between it and its authority.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// Clients must show a certificate of this authority.
    pub client_ca: Option<PathBuf>,
}

/// The TLS settings that belong to the files as they are now.
pub(crate) struct Tls {
    files: TlsFiles,
    current: Mutex<(Stamp, Arc<ServerConfig>)>,
}

/// When the files were last changed.
type Stamp = [Option<SystemTime>; 3];

impl Tls {
    pub(crate) fn load(files: TlsFiles) -> Result<Self, ServerError> {
        let stamp = files.stamp();
        let config = files.read()?;
        Ok(Self {
            files,
            current: Mutex::new((stamp, config)),
        })
    }

    /// The settings for the next connection. Reads files: not for the reactor's threads. What
    /// can't be read leaves the previous certificate in use.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        let stamp = self.files.stamp();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.0 != stamp {
            match self.files.read() {
                Ok(config) => current.1 = config,
                Err(error) => {
                    tracing::warn!(%error, "keeping the streaming server's previous certificate");
                }
            }
            current.0 = stamp;
        }
        current.1.clone()
    }
}

impl TlsFiles {
    fn stamp(&self) -> Stamp {
        let modified = |path: &Path| std::fs::metadata(path).and_then(|it| it.modified()).ok();
        [
            modified(&self.certificate),
            modified(&self.key),
            self.client_ca.as_deref().and_then(modified),
        ]
    }

    fn read(&self) -> Result<Arc<ServerConfig>, ServerError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let certificates = read_certificates("the certificate", &self.certificate)?;
        let key =
            PrivateKeyDer::from_pem_file(&self.key).map_err(|source| ServerError::TlsFile {
                what: "the private key",
                path: self.key.clone(),
                source,
            })?;
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(ServerError::Tls)?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in read_certificates("the client authority", path)? {
                    roots.add(certificate).map_err(ServerError::Tls)?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(|error| ServerError::ClientAuthority(Box::new(error)))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(certificates, key)
            .map_err(ServerError::Tls)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn read_certificates(
    what: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|source| ServerError::TlsFile {
            what,
            path: path.to_owned(),
            source,
        })
}
