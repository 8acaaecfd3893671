//! Classifies failed requests: whether a retry may help, and how soon.

use std::error::Error as StdError;
use std::io;

use super::attempt::Attempt;
use crate::Error;

/// The reason why a request got no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The host cannot be reached: its name or port is wrong, or it is down. Long retries would only delay the error.
    Unreachable(String),
    /// The host or this node rejects the other's certificate. A retry cannot help.
    Untrusted(String),
    /// Any other network failure; a retry may succeed.
    Broken(String),
}

impl Failure {
    pub(super) fn of(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let reason = orlop_text::with_causes(&error);
        if let Some(tls) = find_tls(&error) {
            return Self::Untrusted(match tls {
                rustls::Error::InvalidCertificate(_) => format!(
                    "its certificate is not trusted: {tls}; if it uses a private certificate \
                     authority, set \"ca\" in the registry's hosts.toml"
                ),
                rustls::Error::AlertReceived(_) => format!(
                    "it rejected the TLS handshake: {tls}; if it requires a client certificate, set \
                     \"client\" in the registry's hosts.toml"
                ),
                rustls::Error::InvalidMessage(_) => format!(
                    "it does not speak TLS: {tls}; if it uses plain HTTP, specify it as \
                     \"http://…\" in the registry's hosts.toml"
                ),
                _ => format!("cannot establish a TLS connection: {tls}"),
            });
        }
        // A handshake that is interrupted is a bad connection, not a missing host.
        let cut = find_io(&error).is_some_and(|error| {
            use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
            matches!(
                error.kind(),
                BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
            )
        });
        if error.is_connect() && !cut {
            Self::Unreachable(reason)
        } else {
            Self::Broken(reason)
        }
    }

    /// Describes the failure as one of the registry's token server.
    pub(super) fn of_token_server(self, server: &str) -> Self {
        let name = |reason| format!("asking its token server {server}: {reason}");
        match self {
            Self::Unreachable(reason) => Self::Unreachable(name(reason)),
            Self::Untrusted(reason) => Self::Untrusted(name(reason)),
            Self::Broken(reason) => Self::Broken(name(reason)),
        }
    }

    /// Converts the failure for a pull of `what` from `host`.
    pub(super) fn attempt(self, what: &str, host: &str) -> Attempt {
        let unavailable = |reason| unavailable(what, host, reason);
        match self {
            Self::Unreachable(reason) => Attempt::Unreachable(unavailable(reason)),
            Self::Untrusted(reason) => Attempt::Final(unavailable(reason)),
            Self::Broken(reason) => Attempt::Transient(unavailable(reason), None),
        }
    }
}

/// Returns the error of a host that cannot be reached or does not answer correctly.
pub(super) fn unavailable(what: &str, host: &str, reason: String) -> Error {
    Error::RegistryUnavailable {
        what: what.to_owned(),
        host: host.to_owned(),
        reason,
    }
}

fn find_tls<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e rustls::Error> {
    links(error).find_map(|link| link.downcast_ref::<rustls::Error>())
}

fn find_io<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e io::Error> {
    links(error).find_map(|link| link.downcast_ref::<io::Error>())
}

/// Returns the error and its sources. [`io::Error`] omits its inner error as a source; this function includes it.
fn links<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |link| {
        let wrapped = link
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
            .map(|inner| inner as &(dyn StdError + 'static));
        let link = *link;
        wrapped.or_else(|| link.source())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_inside_io_errors_are_found() {
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let nested = io::Error::other(io::Error::other(tls.clone()));
        assert_eq!(find_tls(&nested), Some(&tls));
        assert_eq!(find_tls(&io::Error::other("x")), None);
    }
}
