//! Locations of the trust roots of `sigstoreSigned`.

use std::path::PathBuf;

use orlop_sigstore::{Authorities, Identity, PublicKey, Subject};

use crate::policy::json::{At, Wrong};
use crate::policy::key::{KeySource, base64};

/// Maximum size of a certificate file.
const MAX_FILE: u64 = 1 << 20;

/// Location of the required signer's keys or certificates.
#[derive(Debug)]
pub(super) enum SignerSource {
    Keys(Vec<KeySource>),
    Identity(IdentitySource),
}

/// Required identity in a certificate, and the locations of the authorities that issue such certificates.
#[derive(Debug)]
pub(super) struct IdentitySource {
    pub(super) roots: PemSource,
    pub(super) intermediates: Option<PemSource>,
    pub(super) issuer: Option<String>,
    pub(super) subject: Vec<Subject>,
    pub(super) certificate_logs: Vec<KeySource>,
}

/// The location of certificates.
#[derive(Debug)]
pub(super) enum PemSource {
    /// In a file, which is read on demand.
    File(PathBuf),
    /// In the policy itself.
    Inline(Vec<u8>),
}

impl IdentitySource {
    /// Loads all certificates and keys. Blocks.
    pub(super) fn load(&self) -> Result<Identity, String> {
        let wrong = |source: &PemSource, reason| format!("{}: {reason}", source.name());
        let mut authorities = self.roots.authorities()?;
        if let Some(source) = &self.intermediates {
            let added = authorities.with_intermediates(&source.load()?);
            authorities = added.map_err(|reason| wrong(source, reason))?;
        }
        Ok(Identity {
            authorities,
            issuer: self.issuer.clone(),
            subject: self.subject.clone(),
            certificate_logs: load(&self.certificate_logs)?,
        })
    }
}

/// Loads all of these keys. Blocks.
pub(super) fn load(keys: &[KeySource]) -> Result<Vec<PublicKey>, String> {
    keys.iter().map(KeySource::load).collect()
}

impl PemSource {
    pub(super) fn file(value: At) -> Result<Self, Wrong> {
        value.absolute_path().map(Self::File)
    }

    pub(super) fn inline(value: At) -> Result<Self, Wrong> {
        base64(value).map(Self::Inline)
    }

    /// Loads the PEM text. Blocks.
    pub(super) fn load(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::File(path) => orlop_fs::read_file(path, MAX_FILE)
                .map_err(|error| format!("{}: {error}", self.name())),
            Self::Inline(pem) => Ok(pem.clone()),
        }
    }

    /// Loads the certificate authorities. Blocks.
    pub(super) fn authorities(&self) -> Result<Authorities, String> {
        Authorities::from_pem(&self.load()?).map_err(|reason| format!("{}: {reason}", self.name()))
    }

    fn name(&self) -> String {
        match self {
            Self::File(path) => format!("the certificates {}", path.display()),
            Self::Inline(_) => "the certificates in the policy".to_owned(),
        }
    }
}
