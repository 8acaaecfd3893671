//! TLS with a certificate that may be renewed on disk, and clients that may show one of theirs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::certificate::Files;
use crate::agent::AgentError;

/// The TLS settings that belong to the files as they are now.
#[derive(Debug)]
pub(super) struct Tls {
    files: Files,
    client_ca: Option<PathBuf>,
    only_newest: bool,
    current: Mutex<(Stamp, Arc<ServerConfig>)>,
}

/// When the files were last changed.
type Stamp = [Option<SystemTime>; 3];

impl Tls {
    pub(super) fn load(
        files: Files,
        client_ca: &str,
        min_version: &str,
    ) -> Result<Self, AgentError> {
        let only_newest = match min_version {
            "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => false,
            "VersionTLS13" => true,
            other => {
                let text =
                    format!("tlsMinVersion must be VersionTLS12 or VersionTLS13, not {other:?}");
                return Err(AgentError::Setting(text));
            }
        };
        let client_ca = (!client_ca.is_empty()).then(|| PathBuf::from(client_ca));
        let config = read(&files, client_ca.as_deref(), only_newest)?;
        let stamp = stamp(&files, client_ca.as_deref());
        Ok(Self {
            files,
            client_ca,
            only_newest,
            current: Mutex::new((stamp, config)),
        })
    }

    /// The settings for the next connection. Reads files: not for the reactor. What cannot be
    /// read leaves the previous certificate in use.
    pub(super) fn current(&self) -> Arc<ServerConfig> {
        let stamp = stamp(&self.files, self.client_ca.as_deref());
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.0 != stamp {
            match read(&self.files, self.client_ca.as_deref(), self.only_newest) {
                Ok(config) => current.1 = config,
                Err(error) => tracing::warn!(%error, "keeping the previous certificate"),
            }
            current.0 = stamp;
        }
        Arc::clone(&current.1)
    }
}

fn stamp(files: &Files, client_ca: Option<&Path>) -> Stamp {
    let modified = |path: &Path| std::fs::metadata(path).and_then(|it| it.modified()).ok();
    [
        modified(&files.certificate),
        modified(&files.key),
        client_ca.and_then(modified),
    ]
}

fn read(
    files: &Files,
    client_ca: Option<&Path>,
    only_newest: bool,
) -> Result<Arc<ServerConfig>, AgentError> {
    let wrong = |path: &Path, why: String| {
        AgentError::Certificate(format!("reading {}: {why}", path.display()))
    };
    let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>, AgentError> {
        CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect)
            .map_err(|error| wrong(path, error.to_string()))
    };
    let tls = |error: rustls::Error| AgentError::Certificate(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions: &[_] = if only_newest {
        &[&rustls::version::TLS13]
    } else {
        &[&rustls::version::TLS13, &rustls::version::TLS12]
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(tls)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(tls)?;
            }
            // Who shows none may still have a token.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| wrong(path, error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| wrong(&files.key, error.to_string()))?;
    let mut config = builder
        .with_single_cert(certificates(&files.certificate)?, key)
        .map_err(tls)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
