//! Who may ask for metrics.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use orlop_door::{Tls, TlsError, TlsFiles, TlsRules, TlsTerms};

use crate::config::Metrics;

/// No token is longer.
const LONGEST_TOKEN: u64 = 4 << 10;

/// A handshake takes no longer.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);

/// What who asks must show.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    pub(super) tls: Option<Arc<Tls>>,
    /// Whether a certificate will do.
    takes_certificates: bool,
    token: Option<PathBuf>,
}

impl Guard {
    /// As the configuration says. Blocks on files.
    pub(crate) fn of(config: &Metrics) -> Result<Self, TlsError> {
        let files = config.tls_cert.as_ref().zip(config.tls_key.as_ref());
        let rules = TlsRules {
            whom: "a client of metrics",
            certificate_is_optional: config.token_file.is_some(),
            terms: TlsTerms::default(),
        };
        let tls = files.map(|(certificate, key)| {
            let files = TlsFiles {
                certificate: certificate.to_path_buf(),
                key: key.to_path_buf(),
                client_ca: config.client_ca.as_ref().map(|path| path.to_path_buf()),
            };
            Tls::load(files, rules)
        });
        Ok(Self {
            tls: tls.transpose()?.map(Arc::new),
            takes_certificates: config.client_ca.is_some(),
            token: config.token_file.as_ref().map(|path| path.to_path_buf()),
        })
    }

    /// Whether who is known by a certificate, or not, is answered. Blocks on a small file.
    pub(super) fn lets_in(&self, has_certificate: bool, headers: &HeaderMap) -> bool {
        if self.takes_certificates && has_certificate {
            return true;
        }
        let Some(path) = &self.token else {
            return !self.takes_certificates;
        };
        let token = match orlop_disk::read_file(path, LONGEST_TOKEN) {
            Ok(token) => token,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "nobody is told metrics: the token can't be read");
                return false;
            }
        };
        let token = token.trim_ascii();
        let shown = headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
        let shown = shown.and_then(|shown| shown.strip_prefix(b"Bearer "));
        !token.is_empty() && shown.is_some_and(|shown| is_same(shown, token))
    }
}

/// Takes as long wherever they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    let differences = pairs.fold(0, |sum, (one, other)| {
        std::hint::black_box(sum | (one ^ other))
    });
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shown_whole_and_an_empty_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let guard = Guard {
            token: Some(path.clone()),
            takes_certificates: true,
            tls: None,
        };
        let asked = |shown: Option<&str>, has_certificate| {
            let mut headers = HeaderMap::new();
            if let Some(shown) = shown {
                headers.insert(AUTHORIZATION, shown.parse().unwrap());
            }
            guard.lets_in(has_certificate, &headers)
        };
        assert!(!asked(Some("Bearer secret"), false), "there is no file");
        std::fs::write(&path, "secret\n").unwrap();
        assert!(asked(Some("Bearer secret"), false));
        assert!(asked(None, true));
        for wrong in [
            "Bearer secre",
            "Bearer secrets",
            "Bearer ",
            "secret",
            "Basic secret",
            "bearer secret",
        ] {
            assert!(!asked(Some(wrong), false), "{wrong}");
        }
        assert!(!asked(None, false));
        std::fs::write(&path, "\n").unwrap();
        assert!(!asked(Some("Bearer "), false), "an empty token is none");
    }

    #[test]
    fn without_either_everybody_may_ask_and_with_an_authority_who_shows_a_certificate() {
        assert!(Guard::default().lets_in(false, &HeaderMap::new()));
        let guard = Guard {
            takes_certificates: true,
            ..Guard::default()
        };
        assert!(!guard.lets_in(false, &HeaderMap::new()));
        assert!(guard.lets_in(true, &HeaderMap::new()));
    }
}
