//! What a key is worth at a time: by what its owner has signed of it.

use std::cell::Cell;

use crate::certificate::{Certificate, Component, What};
use crate::crypto::{About, Fault, verify};
use crate::error::Date;
use crate::key::{Fingerprint, Key};
use crate::signature::{Signature, kind};
use crate::{KeyName, Refusal};

/// What the clocks of two machines may differ by, in seconds.
const SKEW: u64 = 300;

/// Signatures of a key on itself that are verified; a few are usual.
const MAX_VERIFIED: usize = 256;

/// As much of a user id as anybody reads.
const MAX_USER: usize = 200;

/// A key may sign data.
const MAY_SIGN: u8 = 0x02;

/// The end of a key's first and last question: whether it may be believed now.
pub(crate) struct Standing<'c> {
    certificate: &'c Certificate,
    now: u64,
    /// What is left of [`MAX_VERIFIED`].
    left: Cell<usize>,
}

/// What a key says of itself.
#[derive(Default)]
struct Said {
    created: u64,
    key_lifetime: Option<u32>,
    flags: Option<u8>,
    user: Option<String>,
}

impl<'c> Standing<'c> {
    fn of(certificate: &'c Certificate, now: u64) -> Self {
        Self {
            certificate,
            now,
            left: Cell::new(MAX_VERIFIED),
        }
    }

    /// Whether a key of the certificate may sign now: the primary one, or a subkey. Gives its name.
    pub(crate) fn signer(
        certificate: &'c Certificate,
        key: &Key,
        now: u64,
    ) -> Result<KeyName, Refusal> {
        let standing = Self::of(certificate, now);
        let (flags, user) = standing.primary()?;
        let mut name = KeyName {
            fingerprint: key.fingerprint,
            primary: None,
            user,
        };
        let flags = if key.fingerprint == certificate.primary.fingerprint {
            flags
        } else {
            name.primary = Some(certificate.primary.fingerprint);
            standing.subkey(key, &name)?
        };
        if flags.is_some_and(|flags| flags & MAY_SIGN == 0) {
            return Err(Refusal::MayNotSign(name));
        }
        Ok(name)
    }

    /// Whether any key of the certificate may sign; else why not, of the last one that comes closest.
    pub(crate) fn any_signer(certificate: &'c Certificate, now: u64) -> Result<(), Refusal> {
        let mut reason = None;
        for key in certificate.keys() {
            match Self::signer(certificate, key, now) {
                Ok(_) => return Ok(()),
                Err(refusal @ Refusal::MayNotSign(_)) => drop(reason.get_or_insert(refusal)),
                Err(refusal) => reason = Some(refusal),
            }
        }
        reason.map_or(Ok(()), Err)
    }

    /// Whether a key of the certificate is revoked, by itself or with the primary one.
    pub(crate) fn revoked(certificate: &'c Certificate, key: &Key) -> bool {
        // When that was said does not matter.
        let standing = Self::of(certificate, 0);
        certificate.components.iter().any(|it| match &it.what {
            What::Primary => standing.is_revoked(it, kind::KEY_REVOCATION),
            What::Subkey(one) if one == key => standing.is_revoked(it, kind::SUBKEY_REVOCATION),
            _ => false,
        })
    }

    /// What the primary key is for, and whose; or why it is worth nothing.
    fn primary(&self) -> Result<(Option<u8>, Option<String>), Refusal> {
        let key = &self.certificate.primary;
        let mut name = KeyName {
            fingerprint: key.fingerprint,
            primary: None,
            user: self.first_user(),
        };
        usable(key, &name)?;
        let (mut on_key, mut on_users) = (Vec::new(), Vec::new());
        let mut revokers = Vec::new();
        for component in &self.certificate.components {
            let said = match component.what {
                What::Primary => {
                    if self.is_revoked(component, kind::KEY_REVOCATION) {
                        return Err(Refusal::KeyRevoked(name));
                    }
                    on_key = self.good(component, |it| it == kind::DIRECT_KEY);
                    revokers.extend(on_key.iter().flat_map(|it| &it.says.revokers).copied());
                    continue;
                }
                What::User(_) | What::Attribute(_) => self.certified(component),
                What::Subkey(_) | What::Other(_) => continue,
            };
            let Some(signature) = said else { continue };
            revokers.extend(&signature.says.revokers);
            on_users.push((signature, component));
        }
        // Those keys are not here; who names them is taken at their word.
        if self.is_revoked_for_others(&revokers) {
            return Err(Refusal::KeyRevoked(name));
        }
        let said = said(&on_key, &on_users).ok_or_else(|| Refusal::NotCertified(name.clone()))?;
        name.user = said.user;
        if let Some(on) = expiry(key, said.key_lifetime).filter(|on| *on <= self.now) {
            return Err(Refusal::KeyExpired(name, Date(on)));
        }
        Ok((said.flags, name.user))
    }

    /// What a subkey is for; or why it is worth nothing.
    fn subkey(&self, key: &Key, name: &KeyName) -> Result<Option<u8>, Refusal> {
        let is_it = |it: &&Component| matches!(&it.what, What::Subkey(one) if one == key);
        let mut newest: Option<Signature> = None;
        for component in self.certificate.components.iter().filter(is_it) {
            if self.is_revoked(component, kind::SUBKEY_REVOCATION) {
                return Err(Refusal::KeyRevoked(name.clone()));
            }
            let bound = self.good(component, |it| it == kind::SUBKEY_BINDING);
            newest = bound
                .into_iter()
                .chain(newest)
                .max_by_key(Signature::created);
        }
        let bound = newest.ok_or_else(|| Refusal::NotBound(name.clone()))?;
        let until = expiry(key, bound.says.key_lifetime);
        if let Some(on) = until.filter(|on| *on <= self.now) {
            return Err(Refusal::KeyExpired(name.clone(), Date(on)));
        }
        if bound.says.flags.is_some_and(|flags| flags & MAY_SIGN == 0) {
            return Ok(bound.says.flags);
        }
        usable(key, name)?;
        let back = bound.says.embedded.as_deref().map(Signature::parse);
        let primary = &self.certificate.primary;
        let is_bound = back.is_some_and(|back| {
            back.is_ok_and(|back| {
                back.kind == kind::PRIMARY_KEY_BINDING
                    && back.says.unknown_critical.is_none()
                    && self.is_in_time(&back, key)
                    && self.verified(&back, key, &[&primary.hashed, &key.hashed]) == Ok(())
            })
        });
        if !is_bound {
            return Err(Refusal::NotBoundBack(name.clone()));
        }
        Ok(bound.says.flags)
    }

    /// The newest signature of the owner on a name of theirs, unless it was taken back since.
    fn certified(&self, component: &Component) -> Option<Signature> {
        let newest =
            |signatures: Vec<Signature>| signatures.into_iter().max_by_key(Signature::created);
        let signature = newest(self.good(component, |it| kind::CERTIFICATIONS.contains(&it)))?;
        let revoked = newest(self.good(component, |it| it == kind::CERTIFICATION_REVOCATION));
        let is_revoked = revoked.is_some_and(|it| it.created() >= signature.created());
        (!is_revoked).then_some(signature)
    }

    /// Whether the primary key says that what it has signed before is worth nothing. What may say so, and can't
    /// be verified, counts.
    fn is_revoked(&self, component: &Component, wanted: u8) -> bool {
        self.signatures(component)
            .any(|it| it.kind == wanted && self.verified_on(&it, component) != Err(Fault::Wrong))
    }

    /// Whether one of those that may revoke the key as well is said to have done so.
    fn is_revoked_for_others(&self, revokers: &[Fingerprint]) -> bool {
        let on_key = self.certificate.components.iter();
        let on_key = on_key.filter(|it| it.what == What::Primary);
        let mut revocations = on_key
            .flat_map(|it| &it.signatures)
            .filter_map(|body| Signature::parse(body).ok())
            .filter(|it| it.kind == kind::KEY_REVOCATION && it.names_its_key());
        revocations.any(|it| revokers.iter().any(|revoker| it.may_be_by(revoker)))
    }

    /// The signatures of some kinds on something that are by the primary key, and hold now.
    fn good(&self, component: &Component, wanted: impl Fn(u8) -> bool) -> Vec<Signature> {
        let is_good = |it: &Signature| {
            wanted(it.kind)
                && it.says.unknown_critical.is_none()
                && self.is_in_time(it, &self.certificate.primary)
                && self.verified_on(it, component) == Ok(())
        };
        self.signatures(component).filter(is_good).collect()
    }

    /// The signatures on something that may be by the primary key.
    fn signatures<'a>(&'a self, component: &'a Component) -> impl Iterator<Item = Signature> + 'a {
        let parsed = component.signatures.iter();
        let parsed = parsed.filter_map(|body| Signature::parse(body).ok());
        parsed.filter(|it| it.may_be_by(&self.certificate.primary.fingerprint))
    }

    /// Whether a signature of a key holds now.
    fn is_in_time(&self, signature: &Signature, by: &Key) -> bool {
        let made = signature.created();
        made.is_some_and(|made| (by.created..=self.now.saturating_add(SKEW)).contains(&made))
            && signature.expires().is_none_or(|end| end > self.now)
    }

    fn verified_on(&self, signature: &Signature, component: &Component) -> Result<(), Fault> {
        let key = &self.certificate.primary;
        self.verified(signature, key, &[&key.hashed, &component.hashed()])
    }

    fn verified(&self, signature: &Signature, key: &Key, parts: &[&[u8]]) -> Result<(), Fault> {
        let Some(left) = self.left.get().checked_sub(1) else {
            let too_many = format!("a key with more than {MAX_VERIFIED} signatures of its own");
            return Err(Fault::Unsupported(too_many));
        };
        self.left.set(left);
        verify(key, signature, parts, About::OwnKeys)
    }

    /// What people call the key before anything of it is verified.
    fn first_user(&self) -> Option<String> {
        self.certificate.components.iter().find_map(user)
    }
}

impl Certificate {
    /// The primary key and the subkeys that are understood.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        let subkeys = self.components.iter().filter_map(|it| match &it.what {
            What::Subkey(key) => Some(key),
            _ => None,
        });
        std::iter::once(&self.primary).chain(subkeys)
    }
}

/// What the owner said last. Of two things said at once the stricter one holds.
fn said(on_key: &[Signature], on_users: &[(Signature, &Component)]) -> Option<Said> {
    // What is signed of the key alone may be about something else, such as who may revoke it.
    let is_about_key = |it: &&Signature| {
        on_users.is_empty() || it.says.key_lifetime.is_some() || it.says.flags.is_some()
    };
    let about_key = on_key.iter().filter(is_about_key);
    let all: Vec<&Signature> = about_key.chain(on_users.iter().map(|(it, _)| it)).collect();
    let created = all.iter().filter_map(|it| it.created()).max()?;
    let mut said = Said {
        created,
        ..Said::default()
    };
    let lifetime = |it: &Signature| it.says.key_lifetime.filter(|seconds| *seconds != 0);
    let last = all.iter().filter(|it| it.created() == Some(said.created));
    said.key_lifetime = last.clone().filter_map(|it| lifetime(it)).min();
    let with_flags = all.iter().filter(|it| it.says.flags.is_some());
    let newest = with_flags.clone().filter_map(|it| it.created()).max();
    let flags = with_flags.filter(|it| it.created() == newest);
    said.flags = flags
        .filter_map(|it| it.says.flags)
        .reduce(|one, other| one & other);
    let users = on_users.iter();
    let first = users.clone().filter(|(it, _)| it.says.is_primary_user);
    said.user = first
        .chain(users)
        .find_map(|(_, component)| user(component));
    Some(said)
}

/// Whether signatures of a key can be verified.
fn usable(key: &Key, name: &KeyName) -> Result<(), Refusal> {
    let unusable = |reason: &String| Refusal::Unusable(name.clone(), reason.clone());
    key.material.as_ref().map(drop).map_err(unusable)
}

fn user(component: &Component) -> Option<String> {
    let What::User(user) = &component.what else {
        return None;
    };
    let text = String::from_utf8_lossy(user);
    let shown = text.chars().filter(|char| !char.is_control());
    Some(shown.take(MAX_USER).collect())
}

/// When a key ends to be good, if ever.
fn expiry(key: &Key, lifetime: Option<u32>) -> Option<u64> {
    let lifetime = lifetime.filter(|seconds| *seconds != 0)?;
    Some(key.created + u64::from(lifetime))
}

/// Whether a signature of data is good for its time; `key` is who has made it.
pub(crate) fn in_time(
    signature: &Signature,
    key: &Key,
    name: &KeyName,
    now: u64,
) -> Result<(), Refusal> {
    let created = signature.created().ok_or(Refusal::Undated)?;
    if created > now.saturating_add(SKEW) {
        return Err(Refusal::FromFuture(Date(created)));
    }
    if created < key.created {
        return Err(Refusal::OlderThanKey(name.clone()));
    }
    match signature.expires() {
        Some(end) if end <= now => Err(Refusal::Expired(Date(end))),
        _ => Ok(()),
    }
}
