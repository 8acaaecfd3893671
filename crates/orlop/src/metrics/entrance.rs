//! Access control of the metrics endpoint.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Uri};
use orlop_listen::{Tls, TlsError, TlsFiles, TlsRules, TlsTerms, is_for_this_node};

use crate::config::Metrics;

/// Maximum length of a token.
const LONGEST_TOKEN: u64 = 4 << 10;

/// Credentials that a client must present.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    pub(super) tls: Option<Arc<Tls>>,
    /// Whether a client certificate is sufficient.
    takes_certificates: bool,
    token: Option<PathBuf>,
    /// Allowed host names of a request, if no credentials are required.
    names: Vec<String>,
}

/// Transport of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    /// Over a unix socket.
    Unix,
    /// Over TCP.
    Tcp,
    /// Over TCP, with a client certificate.
    Certificate,
}

/// Reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It has neither the token nor a certificate.
    Unknown,
    /// Its Host header is not one of this server's names, so it may come from a page of another site.
    Host,
}

impl Guard {
    /// Creates the guard from the configuration. Blocks on files.
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
            names: config.names.clone(),
            tls: tls.transpose()?.map(Arc::new),
            takes_certificates: config.client_ca.is_some(),
            token: config.token_file.as_ref().map(|path| path.to_path_buf()),
        })
    }

    /// Checks whether a request is allowed. Blocks on a small file.
    pub(super) fn check(
        &self,
        channel: Channel,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        if self.takes_certificates && channel == Channel::Certificate {
            return Ok(());
        }
        if let Some(path) = &self.token {
            return has_token(path, headers)
                .then_some(())
                .ok_or(Refusal::Unknown);
        }
        if self.takes_certificates {
            return Err(Refusal::Unknown);
        }
        let is_ours = channel == Channel::Unix || is_for_this_node(uri, headers, &self.names);
        is_ours.then_some(()).ok_or(Refusal::Host)
    }
}

fn has_token(path: &Path, headers: &HeaderMap) -> bool {
    let token = match orlop_fs::read_file(path, LONGEST_TOKEN) {
        Ok(token) => token,
        Err(error) => {
            tracing::warn!(
                path = %path.display(),
                %error,
                "cannot read the token; all metrics requests are rejected"
            );
            return false;
        }
    };
    let token = token.trim_ascii();
    let shown = headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
    let shown = shown.and_then(|shown| shown.strip_prefix(b"Bearer "));
    !token.is_empty() && shown.is_some_and(|shown| is_same(shown, token))
}

/// Compares in constant time.
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
            ..Guard::default()
        };
        let asked = |shown: Option<&str>, has_certificate| {
            let mut headers = HeaderMap::new();
            if let Some(shown) = shown {
                headers.insert(AUTHORIZATION, shown.parse().unwrap());
            }
            let channel = if has_certificate {
                Channel::Certificate
            } else {
                Channel::Unix
            };
            guard
                .check(channel, &Uri::from_static("/"), &headers)
                .is_ok()
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
        let check = |guard: &Guard, channel| {
            let checked = guard.check(channel, &Uri::from_static("/"), &HeaderMap::new());
            checked.is_ok()
        };
        assert!(check(&Guard::default(), Channel::Tcp));
        let guard = Guard {
            takes_certificates: true,
            ..Guard::default()
        };
        assert!(!check(&guard, Channel::Tcp));
        assert!(check(&guard, Channel::Certificate));
    }

    #[test]
    fn the_host_counts_where_nothing_has_to_be_shown_and_a_browser_comes_to() {
        let guard = |takes_certificates| Guard {
            takes_certificates,
            names: vec!["node1.example".to_owned()],
            ..Guard::default()
        };
        let check = |takes_certificates, channel, host: &str| {
            let headers = HeaderMap::from_iter([(http::header::HOST, host.parse().unwrap())]);
            guard(takes_certificates).check(channel, &Uri::from_static("/"), &headers)
        };
        assert_eq!(check(false, Channel::Tcp, "node1.example:9273"), Ok(()));
        let evil = "evil.example";
        assert_eq!(check(false, Channel::Tcp, evil), Err(Refusal::Host));
        assert_eq!(check(false, Channel::Unix, evil), Ok(()));
        assert_eq!(check(true, Channel::Certificate, evil), Ok(()));
    }
}
