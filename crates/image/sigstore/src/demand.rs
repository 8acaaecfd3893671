//! Who must have signed, and in which logs that must be.

use crate::identity::Moment;
use crate::key::PublicKey;
use crate::signed::Evidence;
use crate::{Authorities, Identity, Refusal, identity};

/// What a signature must fulfil.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// Who must have signed.
    pub signer: Signer<'a>,
    /// In one of these logs it must be; `None` where that does not matter.
    pub logs: Option<&'a [PublicKey]>,
    /// Who may say when something was signed with a certificate (RFC 3161), where no log says so; `None`: nobody.
    pub stampers: Option<&'a Authorities>,
    /// Seconds since 1970: certificates of which no log says when they were used must be valid now.
    pub now: i64,
}

/// Who must have signed.
#[derive(Debug, Clone, Copy)]
pub enum Signer<'a> {
    /// Who has one of these keys.
    Keys(&'a [PublicKey]),
    /// Who has a certificate for this name.
    Identity(&'a Identity),
}

/// Who has signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// The key at this place of those that were asked for.
    Key(usize),
    /// Who has a certificate for these names.
    Identity(String),
}

impl Demand<'_> {
    /// By whom something is, or why it does not count.
    pub(crate) fn check(&self, evidence: &Evidence<'_>) -> Result<By, Refusal> {
        match self.signer {
            Signer::Keys(keys) => self.by_key(keys, evidence),
            Signer::Identity(identity) => self.by_certificate(identity, evidence),
        }
    }

    fn by_key(&self, keys: &[PublicKey], evidence: &Evidence<'_>) -> Result<By, Refusal> {
        let has_signed = |key: &PublicKey| key.has_signed(&evidence.message, evidence.signature);
        let place = keys.iter().position(has_signed);
        let place = place.ok_or(Refusal::OtherKey)?;
        if let Some(logs) = self.logs {
            evidence.logged(logs, keys[place].der(), None)?;
        }
        Ok(By::Key(place))
    }

    fn by_certificate(&self, identity: &Identity, evidence: &Evidence<'_>) -> Result<By, Refusal> {
        let (leaf, chain) = evidence.certificates()?;
        let key = leaf.key()?;
        if !key.has_signed(&evidence.message, evidence.signature) {
            return Err(Refusal::NotByCertificate);
        }
        let logged = match self.logs {
            Some(logs) => evidence.logged(logs, key.der(), Some(leaf.der()))?,
            None => None,
        };
        let moment = match (logged, self.stampers) {
            (Some(at), _) => Moment::Logged(at),
            (None, Some(stampers)) => Moment::Stamped(evidence.stamped(stampers)?),
            (None, None) if self.logs.is_some() => {
                return Err(Refusal::NoTime(evidence.but_stamped()));
            }
            (None, None) => Moment::Now(self.now),
        };
        identity.check(&leaf, chain, moment)?;
        Ok(By::Identity(identity::found(&leaf)))
    }
}
