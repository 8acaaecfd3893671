//! Trust roots of `sigstoreSigned`, which are read again for each check.

use orlop_sigstore::{Authorities, Identity, PublicKey};

use super::SigstoreSigned;
use super::sources::{SignerSource, load};
use crate::policy::key::KeySource;

/// The required signer, with loaded keys or certificates.
pub(super) enum Signers<'p> {
    /// The keys and their locations, in the same order.
    Keys(Vec<PublicKey>, &'p [KeySource]),
    Identity(Box<Identity>),
}

/// All loaded trust roots.
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

    /// Checks that all trust roots can be read. Blocks.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.load().map(drop)
    }
}
