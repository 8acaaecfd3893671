//! TLS for connections to streaming servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use orlop_listen::AnyCertificate;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Flags for streaming over TLS.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TlsFlags {
    /// Name that the certificate of the streaming server must have [default: localhost]
    #[arg(long, alias = "tls-server-name", value_name = "NAME")]
    tls_sni: Option<String>,

    /// Certificate authority (PEM) to verify the streaming server. Without it, any certificate is
    /// accepted, because the runtime itself returns the URL and it is valid for one session only
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// Client certificate (PEM) for the streaming server
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Private key (PEM) of the client certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl TlsFlags {
    /// Returns the expected server name.
    pub(crate) fn server_name(&self) -> &str {
        self.tls_sni.as_deref().unwrap_or("localhost")
    }

    /// Returns the TLS configuration of the streaming client.
    pub(crate) fn config(&self) -> anyhow::Result<Arc<ClientConfig>> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .context("cannot use TLS")?;
        let builder = match &self.tls_ca {
            Some(path) => builder.with_root_certificates(authorities(path)?),
            None => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))),
        };
        let config = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                let chain = certificates(certificate)?;
                let read = || format!("cannot read the key {}", key.display());
                let key = PrivateKeyDer::from_pem_file(key).with_context(read)?;
                builder
                    .with_client_auth_cert(chain, key)
                    .context("the certificate and the key do not match")?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(Arc::new(config))
    }
}

fn authorities(path: &Path) -> anyhow::Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store
            .add(certificate)
            .with_context(|| format!("cannot use a certificate in {}", path.display()))?;
    }
    Ok(store)
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let failed = || format!("cannot read certificates from {}", path.display());
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(failed)?;
    if found.is_empty() {
        bail!("{} contains no certificate", path.display());
    }
    Ok(found)
}
