//! TLS with certificates that may be renewed while a server runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::tls_terms::TlsTerms;

/// PEM files for TLS. They are read again when they have changed on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain: the server's certificate and the intermediate ones.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// If set, clients must present a certificate of this authority.
    pub client_ca: Option<PathBuf>,
}

/// Requirements of a server for its clients.
#[derive(Clone, Debug)]
pub struct TlsRules {
    /// The name of a client in the log: "a client".
    pub whom: &'static str,
    /// Whether clients without a certificate are accepted, too.
    pub certificate_is_optional: bool,
    /// TLS versions and cipher suites.
    pub terms: TlsTerms,
}

/// Reasons why a server cannot use TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or key could not be read.
    #[error("reading {what} from {path}")]
    File {
        /// The expected content of the file.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: pem::Error,
    },
    /// The certificate and the key cannot be used for a server.
    #[error("setting up TLS")]
    Server(#[source] rustls::Error),
    /// The client authority cannot be used.
    #[error("setting up client authentication with {path}")]
    ClientAuthority {
        /// The authority's file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: VerifierBuilderError,
    },
}

/// The TLS settings from the current files.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    rules: TlsRules,
    current: Mutex<(Stamp, Arc<ServerConfig>)>,
}

/// When the files were last changed, and their sizes. A file that is read while it is written may have the same time
/// when it is complete.
type Stamp = [Option<(SystemTime, u64)>; 3];

impl Tls {
    /// Reads the files.
    pub fn load(files: TlsFiles, rules: TlsRules) -> Result<Self, TlsError> {
        // First, so that files that change during the read are read again.
        let stamp = files.stamp();
        let config = files.read(&rules)?;
        Ok(Self {
            files,
            rules,
            current: Mutex::new((stamp, config)),
        })
    }

    /// Performs the handshake with the current files. Failures are only logged. The accept loop limits the time.
    pub async fn accept<S>(self: &Arc<Self>, stream: S) -> Option<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (reading, whom) = (Arc::clone(self), self.rules.whom);
        let config = orlop_pool::blocking(move || reading.current()).await.ok()?;
        let accepted = TlsAcceptor::from(config).accept(stream).await;
        accepted
            .inspect_err(|error| tracing::debug!(%error, "{whom} failed the TLS handshake"))
            .ok()
    }

    /// Returns the settings from the current files; if they cannot be read, the previous certificate stays in use.
    fn current(&self) -> Arc<ServerConfig> {
        let stamp = self.files.stamp();
        let mut current = self.current.lock();
        if current.0 != stamp {
            match self.files.read(&self.rules) {
                Ok(config) => current.1 = config,
                Err(error) => {
                    let error: &(dyn std::error::Error + 'static) = &error;
                    tracing::warn!(
                        error,
                        "cannot load the new certificate; keeping the previous one"
                    );
                }
            }
            current.0 = stamp;
        }
        Arc::clone(&current.1)
    }
}

impl TlsFiles {
    fn stamp(&self) -> Stamp {
        let of = |path: &Path| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.len()))
        };
        [
            of(&self.certificate),
            of(&self.key),
            self.client_ca.as_deref().and_then(of),
        ]
    }

    fn read(&self, rules: &TlsRules) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = Arc::new(rules.terms.provider());
        let chain = certificates("the certificate", &self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|source| TlsError::File {
            what: "the private key",
            path: self.key.clone(),
            source,
        })?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&rules.terms.versions())
            .map_err(TlsError::Server)?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates("the client certificate authority", path)? {
                    roots.add(certificate).map_err(TlsError::Server)?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if rules.certificate_is_optional {
                    verifier.allow_unauthenticated()
                } else {
                    verifier
                };
                let verifier = verifier
                    .build()
                    .map_err(|source| TlsError::ClientAuthority {
                        path: path.clone(),
                        source,
                    })?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(TlsError::Server)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|source| TlsError::File {
            what,
            path: path.to_owned(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use orlop_testkit::tls::Authority;
    use orlop_testkit::{machine, skip_unless};

    use super::*;

    fn rules() -> TlsRules {
        TlsRules {
            whom: "a client",
            certificate_is_optional: false,
            terms: TlsTerms::default(),
        }
    }

    /// Writes a file with this modification time.
    fn write(path: &Path, bytes: &[u8], when: SystemTime) {
        fs::write(path, bytes).unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(when).unwrap();
    }

    #[test]
    fn a_file_that_was_read_while_it_was_written_is_read_again() {
        skip_unless!(machine::has_program("openssl"));
        let dir = tempfile::tempdir().unwrap();
        let issued = Authority::new(dir.path(), "authority").issue("server", "IP:127.0.0.1");
        let files = TlsFiles {
            certificate: issued.certificate.clone(),
            key: issued.key,
            client_ca: None,
        };
        let tls = Tls::load(files, rules()).unwrap();
        let first = tls.current();
        let same = |config| Arc::ptr_eq(&first, &config);
        assert!(same(tls.current()), "nothing has changed");
        #[allow(
            clippy::disallowed_methods,
            reason = "a test reads what it wrote itself"
        )]
        let whole = fs::read(&issued.certificate).unwrap();
        let now = SystemTime::now();
        write(&issued.certificate, &whole[..whole.len() / 2], now);
        assert!(same(tls.current()), "half a certificate is none");
        write(&issued.certificate, &whole, now);
        assert!(!same(tls.current()));
    }
}
