//! Whether a key, or a name of its owner, is taken back.
//!
//! A revocation counts wherever it hangs: who hands keys around may have put it elsewhere. And one that names the key as
//! its maker, but can't be read or verified here, counts as if it were right: others may well understand it.

use crate::Refusal;
use crate::algorithm;
use crate::certificate::{Component, What};
use crate::crypto::Fault;
use crate::error::KeyName;
use crate::fingerprint::Fingerprint;
use crate::signature::{Signature, kind};
use crate::standing::Standing;

/// How much is known of a revocation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Revoked {
    /// It is right.
    Surely,
    /// It can't be told, and why.
    Perhaps(String),
}

impl Revoked {
    /// Why the key is not believed.
    pub(crate) fn refusal(self, name: KeyName) -> Refusal {
        match self {
            Self::Surely => Refusal::KeyRevoked(name),
            Self::Perhaps(reason) => Refusal::RevocationUnchecked(name, reason),
        }
    }
}

impl Standing<'_> {
    /// Whether the primary key says that what it has signed of this before is worth nothing.
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

    /// Whether one of those that may revoke the key as well is said to have done so.
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

    /// When the name that this is was last taken back, and that now; always, where that can't be told.
    pub(crate) fn name_revoked(&self, component: &Component) -> Option<u64> {
        let primary = &self.certificate.primary.fingerprint;
        let mut last = None;
        for at in &self.certificate.components {
            // Those at another name are of that.
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

/// What a signature is about that takes this back.
fn revocation_of(what: &What) -> u8 {
    match what {
        What::Primary => kind::KEY_REVOCATION,
        What::Subkey(_) | What::Other(_) => kind::SUBKEY_REVOCATION,
        What::User(_) | What::Attribute(_) => kind::CERTIFICATION_REVOCATION,
    }
}

/// Whether what hangs at one place may be of something, as far as the place tells. There is one primary key; what hangs
/// at a subkey is of that.
fn may_be_meant(at: &What, wanted: &What) -> bool {
    let is_subkey = matches!(at, What::Subkey(_) | What::Other(_));
    *wanted == What::Primary || at == wanted || !is_subkey
}

fn is_name(what: &What) -> bool {
    matches!(what, What::User(_) | What::Attribute(_))
}

/// Whether a signature that can't be read is a revocation by a key, as far as can be seen.
fn may_revoke(body: &[u8], wanted: u8, by: &Fingerprint) -> bool {
    let kind = match body {
        // A length stands before it in the versions of old.
        [2 | 3, _, kind, ..] | [_, kind, ..] => *kind,
        _ => return false,
    };
    let id = by.id();
    kind == wanted && body.windows(id.len()).any(|it| it == id)
}
