//! Revocations of keys, subkeys and user IDs.
//!
//! A revocation counts wherever it is attached, because a distributor may have moved it. A revocation that names the
//! key as its issuer, but cannot be parsed or verified here, counts as valid: other implementations may understand
//! it.

use crate::Refusal;
use crate::algorithm;
use crate::certificate::{Component, What};
use crate::crypto::Fault;
use crate::error::KeyName;
use crate::fingerprint::Fingerprint;
use crate::signature::{Signature, kind};
use crate::standing::Standing;

/// The certainty of a revocation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Revoked {
    /// The revocation is verified.
    Surely,
    /// The revocation cannot be verified, with the reason.
    Perhaps(String),
}

impl Revoked {
    /// Returns the reason to refuse the key.
    pub(crate) fn refusal(self, name: KeyName) -> Refusal {
        match self {
            Self::Surely => Refusal::KeyRevoked(name),
            Self::Perhaps(reason) => Refusal::RevocationUnchecked(name, reason),
        }
    }
}

impl Standing<'_> {
    /// Reports whether the primary key revoked the component.
    pub(crate) fn revoked(&self, component: &Component) -> Option<Revoked> {
        let primary = &self.certificate.primary.fingerprint;
        let wanted = revocation_of(&component.what);
        let mut doubt = None;
        for at in &self.certificate.components {
            let may_be_meant = may_be_meant(&at.what, &component.what);
            for body in &at.signatures {
                let reason = match Signature::parse(body) {
                    Err(error) if may_revoke(body, wanted, primary) => error.to_string(),
                    Ok(it) if it.kind == wanted && it.may_be_by(primary) => {
                        match self.checked(&it, component) {
                            Ok(()) => return Some(Revoked::Surely),
                            Err(Fault::Wrong) => continue,
                            Err(Fault::Weak(hash)) => format!("it uses {hash}"),
                            Err(Fault::Unsupported(what)) => format!("{what} is not supported"),
                        }
                    }
                    Ok(_) | Err(_) => continue,
                };
                if may_be_meant {
                    doubt.get_or_insert(reason);
                }
            }
        }
        doubt.map(Revoked::Perhaps)
    }

    /// Reports whether an authorised revoker claims to have revoked the key. The signature is not verified.
    pub(crate) fn is_revoked_for_others(&self, revokers: &[Fingerprint]) -> bool {
        let components = self.certificate.components.iter();
        let mut bodies = components.flat_map(|it| &it.signatures);
        let is_by = |body: &Vec<u8>, revoker: &Fingerprint| {
            let Ok(it) = Signature::parse(body) else {
                return may_revoke(body, kind::KEY_REVOCATION, revoker);
            };
            it.kind == kind::KEY_REVOCATION && it.names_its_key() && it.may_be_by(revoker)
        };
        bodies.any(|body| revokers.iter().any(|revoker| is_by(body, revoker)))
    }

    /// Returns the time of the last revocation of a user ID; `u64::MAX` if a revocation cannot be verified.
    pub(crate) fn name_revoked(&self, component: &Component) -> Option<u64> {
        let primary = &self.certificate.primary.fingerprint;
        let mut last = None;
        for at in &self.certificate.components {
            // Revocations attached to another user ID apply to that one.
            if at.what != component.what && is_name(&at.what) {
                continue;
            }
            for body in &at.signatures {
                let is_here = at.what == component.what;
                match Signature::parse(body) {
                    Ok(it)
                        if it.kind == kind::CERTIFICATION_REVOCATION && it.may_be_by(primary) =>
                    {
                        match self.checked(&it, component) {
                            Ok(()) if self.is_in_time(&it, &self.certificate.primary) => {
                                last = last.max(it.created());
                            }
                            Err(Fault::Weak(_) | Fault::Unsupported(_)) if is_here => {
                                return Some(u64::MAX);
                            }
                            _ => {}
                        }
                    }
                    Err(_)
                        if is_here && may_revoke(body, kind::CERTIFICATION_REVOCATION, primary) =>
                    {
                        return Some(u64::MAX);
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        }
        last
    }

    fn checked(&self, signature: &Signature, component: &Component) -> Result<(), Fault> {
        if !algorithm::is_known(signature.algorithm) {
            let what = format!("a signature by algorithm {}", signature.algorithm);
            return Err(Fault::Unsupported(what));
        }
        self.verified_on(signature, component)
    }
}

/// Returns the signature type that revokes this component.
fn revocation_of(what: &What) -> u8 {
    match what {
        What::Primary => kind::KEY_REVOCATION,
        What::Subkey(_) | What::Other(_) => kind::SUBKEY_REVOCATION,
        What::User(_) | What::Attribute(_) => kind::CERTIFICATION_REVOCATION,
    }
}

/// Reports whether a revocation attached to `at` may apply to `wanted`. There is only one primary key; a revocation
/// attached to a subkey applies to that subkey.
fn may_be_meant(at: &What, wanted: &What) -> bool {
    let is_subkey = matches!(at, What::Subkey(_) | What::Other(_));
    *wanted == What::Primary || at == wanted || !is_subkey
}

fn is_name(what: &What) -> bool {
    matches!(what, What::User(_) | What::Attribute(_))
}

/// Guesses whether a signature that cannot be parsed is a revocation by a key.
fn may_revoke(body: &[u8], wanted: u8, by: &Fingerprint) -> bool {
    let kind = match body {
        // Old versions have a length before the type.
        [2 | 3, _, kind, ..] | [_, kind, ..] => *kind,
        _ => return false,
    };
    let id = by.id();
    kind == wanted && body.windows(id.len()).any(|it| it == id)
}
