//! TLS versions and cipher suites of a server.

use std::fmt;
use std::str::FromStr;

use rustls::SupportedProtocolVersion;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite as known, default_provider};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedCipherSuite::Tls13};

/// A TLS version, with the names of Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// `VersionTLS12`.
    #[default]
    Tls12,
    /// `VersionTLS13`.
    Tls13,
}

/// TLS versions and cipher suites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsTerms {
    /// The oldest accepted version.
    pub oldest: TlsVersion,
    /// The cipher suites. All of TLS 1.3 are offered unless the list contains one of them. An empty list means all.
    pub suites: Vec<CipherSuite>,
}

impl TlsTerms {
    pub(crate) fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        match self.oldest {
            TlsVersion::Tls12 => vec![&TLS13, &TLS12],
            TlsVersion::Tls13 => vec![&TLS13],
        }
    }

    pub(crate) fn provider(&self) -> CryptoProvider {
        let mut provider = default_provider();
        let named = |suite: SupportedCipherSuite| {
            let mut names = self.suites.iter();
            names.any(|CipherSuite(at)| SUITES[*at].1 == suite)
        };
        let is_13 = |suite: &SupportedCipherSuite| matches!(suite, Tls13(_));
        let names_13 = provider
            .cipher_suites
            .iter()
            .any(|it| is_13(it) && named(*it));
        if !self.suites.is_empty() {
            let stays = |it: &SupportedCipherSuite| named(*it) || (is_13(it) && !names_13);
            provider.cipher_suites.retain(stays);
        }
        provider
    }
}

/// A cipher suite, with its IANA name, which Kubernetes uses too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CipherSuite(usize);

/// Cipher suites that are considered secure.
static SUITES: [(&str, SupportedCipherSuite); 9] = [
    ("TLS_AES_128_GCM_SHA256", known::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", known::TLS13_AES_256_GCM_SHA384),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        known::TLS13_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        known::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        known::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        known::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        known::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        known::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        known::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

impl FromStr for CipherSuite {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        // Kubernetes also accepts an older name for two of them.
        let is_it = |known: &str| {
            let older = known.strip_suffix("_SHA256");
            known == name
                || older.is_some_and(|it| it == name && it.ends_with("_WITH_CHACHA20_POLY1305"))
        };
        let at = SUITES.iter().position(|(known, _)| is_it(known));
        at.map(Self).ok_or_else(|| {
            let names: Vec<_> = SUITES.iter().map(|(name, _)| *name).collect();
            format!(
                "{name:?} is not a supported cipher suite; supported: {}",
                names.join(", ")
            )
        })
    }
}

impl fmt::Display for CipherSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SUITES[self.0].0)
    }
}

impl FromStr for TlsVersion {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "VersionTLS12" => Ok(Self::Tls12),
            "VersionTLS13" => Ok(Self::Tls13),
            other => Err(format!(
                "{other:?} is not a TLS version; use VersionTLS12 or VersionTLS13"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(names: &[&str]) -> Vec<SupportedCipherSuite> {
        let suites = names.iter().map(|name| name.parse().unwrap()).collect();
        let terms = TlsTerms {
            suites,
            ..TlsTerms::default()
        };
        terms.provider().cipher_suites
    }

    #[test]
    fn a_list_narrows_the_version_that_it_speaks_of() {
        assert_eq!(offered(&[]).len(), SUITES.len());
        let both = [
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
            "TLS_AES_256_GCM_SHA384",
        ];
        assert_eq!(
            offered(&both),
            [
                known::TLS13_AES_256_GCM_SHA384,
                known::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
            ]
        );
        assert_eq!(offered(&both[..1]).len(), 4);
        assert_eq!(offered(&both[1..]), [known::TLS13_AES_256_GCM_SHA384]);
    }

    #[test]
    fn a_name_that_is_none_is_told_with_those_that_are() {
        for wrong in [
            "",
            "TLS_RSA_WITH_RC4_128_SHA",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM",
            "AES",
        ] {
            let parsed: Result<CipherSuite, _> = wrong.parse();
            assert!(
                parsed.unwrap_err().contains("TLS_AES_128_GCM_SHA256"),
                "{wrong}"
            );
        }
        for (name, _) in &SUITES {
            assert_eq!(name.parse::<CipherSuite>().unwrap().to_string(), *name);
        }
    }
}
