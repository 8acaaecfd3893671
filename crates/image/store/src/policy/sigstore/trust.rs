//! Whom `sigstoreSigned` trusts: read anew each time, from where the policy says that it is.

use orlop_sigstore::{Authorities, Identity, PublicKey};

use super::SigstoreSigned;
use super::sources::{SignerSource, load};
use crate::policy::key::KeySource;

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
