//! Wrapped keys of a layer, from its annotations.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use zeroize::Zeroizing;

use crate::options::decode;
use crate::{Budget, KEYS, Options, PUBLIC_OPTIONS, PrivateKey, Refused, jwe, pkcs7};

/// Maximum size of an annotation. Wrapped keys are short, with a few kB per recipient.
const LONGEST: usize = 256 << 10;
/// Maximum length of a name in messages.
const LONGEST_NAME: usize = 64;
/// Maximum number of wrapped keys per layer.
const MOST_WRAPPINGS: usize = 64;
/// The way in which a key is wrapped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// For a public key, as JWE.
    Jwe,
    /// For a certificate, as PKCS#7.
    Pkcs7,
    /// For an OpenPGP key.
    Pgp,
    /// For a key in a PKCS#11 module.
    Pkcs11,
    /// By a key provider with this name.
    Provider(String),
    /// An unknown scheme.
    Other(String),
}

impl Scheme {
    fn parse(name: &str) -> Self {
        // Only a short part of the name is displayed.
        let name: String = name.chars().take(LONGEST_NAME).collect();
        match name.as_str() {
            "jwe" => Self::Jwe,
            "pkcs7" => Self::Pkcs7,
            "pgp" => Self::Pgp,
            "pkcs11" => Self::Pkcs11,
            other => match other.strip_prefix("provider.") {
                Some(name) => Self::Provider(name.to_owned()),
                None => Self::Other(other.to_owned()),
            },
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jwe => f.write_str("JWE"),
            Self::Pkcs7 => f.write_str("PKCS#7"),
            Self::Pgp => f.write_str(
                "PGP (which is not supported; encrypt the image for a key provider that runs gpg, and add the \
                 provider to the file that images.key_providers names)",
            ),
            Self::Pkcs11 => f.write_str(
                "PKCS#11 (which is not supported, because the daemon cannot load its C libraries; \
                 use a key provider that loads the module)",
            ),
            Self::Provider(name) => write!(f, "the key provider {name:?}"),
            Self::Other(name) => write!(f, "{name:?}"),
        }
    }
}

/// The encryption annotations of a layer.
#[derive(Debug, Clone)]
pub struct Wrapped {
    public: String,
    /// The scheme and the bytes of each wrapped key.
    wrappings: Vec<(Scheme, Vec<u8>)>,
}

impl Wrapped {
    /// Parses the annotations of a layer.
    pub fn of(annotations: &BTreeMap<String, String>) -> Result<Self, Refused> {
        let public = annotations.get(PUBLIC_OPTIONS).cloned();
        let public = public.ok_or(Refused::Malformed(
            "its annotation with the public encryption options",
        ))?;
        let mut wrappings = Vec::new();
        for (name, value) in annotations {
            let Some(scheme) = name.strip_prefix(KEYS) else {
                continue;
            };
            if value.len() > LONGEST {
                return Err(Refused::TooMany);
            }
            for wrapping in value.split(',').filter(|it| !it.is_empty()) {
                if wrappings.len() == MOST_WRAPPINGS {
                    return Err(Refused::TooMany);
                }
                let bytes = decode(wrapping).ok_or(Refused::Malformed("its wrapped key"))?;
                wrappings.push((Scheme::parse(scheme), bytes));
            }
        }
        if wrappings.is_empty() {
            return Err(Refused::Nobody);
        }
        Ok(Self { public, wrappings })
    }

    /// Returns the wrapped keys of a scheme.
    pub fn by(&self, scheme: &Scheme) -> impl Iterator<Item = &[u8]> {
        let by = self.wrappings.iter().filter(move |(it, _)| it == scheme);
        by.map(|(_, bytes)| bytes.as_slice())
    }

    /// Returns the schemes in use, for messages.
    pub fn schemes(&self) -> String {
        let mut schemes: Vec<_> = self.wrappings.iter().map(|(scheme, _)| scheme).collect();
        schemes.sort();
        schemes.dedup();
        let told: Vec<_> = schemes.into_iter().map(Scheme::to_string).collect();
        told.join(", ")
    }

    /// Returns the distinct names of the providers that can unwrap the key.
    pub fn providers(&self) -> BTreeSet<&str> {
        let names = self
            .wrappings
            .iter()
            .filter_map(|(scheme, _)| match scheme {
                Scheme::Provider(name) => Some(name.as_str()),
                _ => None,
            });
        names.collect()
    }

    /// Unwraps the key with one of the private keys; returns `None` if none fits.
    pub fn open(&self, keys: &[PrivateKey]) -> Result<Option<Options>, Refused> {
        let keys: Vec<&PrivateKey> = keys.iter().collect();
        self.open_within(&keys, &mut Budget::default())
    }

    /// Does the same with an attempt limit for several layers.
    pub fn open_within(
        &self,
        keys: &[&PrivateKey],
        budget: &mut Budget,
    ) -> Result<Option<Options>, Refused> {
        let mut refused = None;
        for (scheme, bytes) in &self.wrappings {
            let opened = match scheme {
                Scheme::Jwe => jwe::open(bytes, keys, budget),
                Scheme::Pkcs7 => pkcs7::open(bytes, keys, budget),
                _ => continue,
            };
            match opened {
                Ok(Some(private)) => return self.options(&private).map(Some),
                Ok(None) => {}
                Err(Refused::TooMany) => return Err(Refused::TooMany),
                // Another wrapped key may fit.
                Err(error) => refused = Some(error),
            }
        }
        refused.map_or(Ok(None), Err)
    }

    /// Returns the options for a key that was unwrapped elsewhere.
    pub fn options(&self, private: &Zeroizing<Vec<u8>>) -> Result<Options, Refused> {
        Options::parse(&self.public, private)
    }
}
