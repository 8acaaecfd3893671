//! Whom `sigstoreSigned` trusts: read anew each time, from where the policy says that it is.

use std::path::PathBuf;

use orlop_sigstore::{Authorities, Identity, PublicKey, Subject};

use super::SigstoreSigned;
use crate::policy::json::{At, Wrong};
use crate::policy::key::{KeySource, base64};

/// No file of certificates is larger.
const MAX_FILE: u64 = 1 << 20;

/// Where it stands who must have signed.
#[derive(Debug)]
pub(super) enum SignerSource {
    Keys(Vec<KeySource>),
    Identity(IdentitySource),
}

/// Somebody with a certificate, and where it stands who makes such certificates.
#[derive(Debug)]
pub(super) struct IdentitySource {
    pub(super) roots: PemSource,
    pub(super) intermediates: Option<PemSource>,
    pub(super) issuer: Option<String>,
    pub(super) subject: Vec<Subject>,
    pub(super) certificate_logs: Vec<KeySource>,
}

/// Where certificates are.
#[derive(Debug)]
pub(super) enum PemSource {
    /// In a file, which is read when it is needed.
    File(PathBuf),
    /// In the policy itself.
    Inline(Vec<u8>),
}

/// Who must have signed, as read.
pub(super) enum Signers<'p> {
    /// Each key with where it stands.
    Keys(Vec<PublicKey>, &'p [KeySource]),
    Identity(Box<Identity>),
}

/// All that is trusted, as read.
pub(super) struct Trust<'p> {
    pub(super) signers: Signers<'p>,
    pub(super) logs: Option<Vec<PublicKey>>,
    pub(super) stampers: Option<Authorities>,
}

impl SigstoreSigned {
    /// Reads all keys and certificates. Blocks.
    pub(super) fn load(&self) -> Result<Trust<'_>, String> {
        let signers = match &self.signer {
            SignerSource::Keys(keys) => Signers::Keys(load(keys)?, keys),
            SignerSource::Identity(identity) => Signers::Identity(Box::new(identity.load()?)),
        };
        let logs = match &self.logs {
            Some(logs) => Some(load(logs)?),
            None => None,
        };
        let stampers = match &self.stampers {
            Some(source) => Some(source.authorities()?),
            None => None,
        };
        Ok(Trust {
            signers,
            logs,
            stampers,
        })
    }

    /// Fails where something that it trusts can't be read. Blocks.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.load().map(drop)
    }
}

impl IdentitySource {
    fn load(&self) -> Result<Identity, String> {
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

fn load(keys: &[KeySource]) -> Result<Vec<PublicKey>, String> {
    keys.iter().map(KeySource::load).collect()
}

impl PemSource {
    pub(super) fn file(value: At) -> Result<Self, Wrong> {
        value.absolute_path().map(Self::File)
    }

    pub(super) fn inline(value: At) -> Result<Self, Wrong> {
        base64(value).map(Self::Inline)
    }

    /// The text. Blocks.
    pub(super) fn load(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::File(path) => orlop_fs::read_file(path, MAX_FILE)
                .map_err(|error| format!("{}: {error}", self.name())),
            Self::Inline(pem) => Ok(pem.clone()),
        }
    }

    /// Those who have the certificates. Blocks.
    fn authorities(&self) -> Result<Authorities, String> {
        Authorities::from_pem(&self.load()?).map_err(|reason| format!("{}: {reason}", self.name()))
    }

    fn name(&self) -> String {
        match self {
            Self::File(path) => format!("the certificates {}", path.display()),
            Self::Inline(_) => "the certificates in the policy".to_owned(),
        }
    }
}
