//! TLS for checks, without verification of the server's certificate.

use std::sync::{Arc, OnceLock};

use orlop_listen::AnyCertificate;
use rustls::ClientConfig;

/// Returns the TLS configuration of checks: they test whether a server answers, not its identity.
pub(super) fn config() -> Option<Arc<ClientConfig>> {
    static CONFIG: OnceLock<Option<Arc<ClientConfig>>> = OnceLock::new();
    let make = || {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = Arc::new(AnyCertificate(provider.clone()));
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .ok()?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Some(Arc::new(config))
    };
    CONFIG.get_or_init(make).clone()
}
