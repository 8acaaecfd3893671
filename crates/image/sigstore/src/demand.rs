//! Requirements for signatures: the signer and the logs.

use crate::identity::Moment;
use crate::key::PublicKey;
use crate::signed::Evidence;
use crate::{Authorities, Identity, Refusal, identity};

/// The requirements for a signature.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// The required signer.
    pub signer: Signer<'a>,
    /// The signature must be in one of these logs; `None` if no log is required.
    pub logs: Option<&'a [PublicKey]>,
    /// The authorities that may prove the signing time of a certificate (RFC 3161), if no log does; `None` for none.
    pub stampers: Option<&'a Authorities>,
    /// Seconds since 1970: a certificate without a logged time must be valid now.
    pub now: i64,
}

/// A required signer.
#[derive(Debug, Clone, Copy)]
pub enum Signer<'a> {
    /// The owner of one of these keys.
    Keys(&'a [PublicKey]),
    /// The holder of a certificate for this identity.
    Identity(&'a Identity),
}

/// A verified signer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// The index of the key in the required keys.
    Key(usize),
    /// The names in the certificate.
    Identity(String),
}

impl Demand<'_> {
    /// Returns the signer, or the reason to refuse the signature.
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
