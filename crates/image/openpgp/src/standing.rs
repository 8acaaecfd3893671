//! Validity of a key at a given time, from its self-signatures.
//!
//! The newest valid self-signature counts, separately for the primary key, each user ID and each subkey. Expiry and
//! usage of the primary key come from a direct-key signature. Without one, they come from the newest user ID
//! signature that contains them. A later user ID signature can only restrict a direct-key signature, not extend it.
//! Statements that permit something must be verified, and not be from the future; statements that restrict a key
//! always count.

use std::cell::Cell;

use crate::certificate::{Certificate, Component, What};
use crate::crypto::{About, Fault, verify};
use crate::error::Date;
use crate::key::Key;
use crate::signature::{Signature, kind};
use crate::{KeyName, Refusal};

/// Tolerated clock difference between two machines, in seconds.
const SKEW: u64 = 300;

/// Maximum number of self-signatures that are verified; a few are usual.
const MAX_VERIFIED: usize = 256;

/// Maximum length of a displayed user ID.
const MAX_USER: usize = 200;

/// Usage flag: the key may sign data.
const MAY_SIGN: u8 = 0x02;

/// Evaluates whether a key is valid now.
pub(crate) struct Standing<'c> {
    pub(crate) certificate: &'c Certificate,
    now: u64,
    /// The remaining number of verifications, from [`MAX_VERIFIED`] down.
    left: Cell<usize>,
}

/// The self-signed properties of a key.
struct Said {
    key_lifetime: Option<u32>,
    flags: Option<u8>,
    user: Option<String>,
}

/// The self-signatures about the primary key.
#[derive(Default)]
struct Statements<'c> {
    /// Direct-key signatures.
    on_key: Vec<Signature>,
    /// The newest signature of each user ID.
    on_users: Vec<(Signature, &'c Component)>,
    /// Signatures that only count as restrictions.
    limits: Vec<Signature>,
}

impl<'c> Standing<'c> {
    fn of(certificate: &'c Certificate, now: u64) -> Self {
        Self {
            certificate,
            now,
            left: Cell::new(MAX_VERIFIED),
        }
    }

    /// Checks that a key of the certificate, the primary key or a subkey, may sign now. Returns its name.
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

    /// Checks that any key of the certificate may sign; otherwise returns the most relevant reason.
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

    /// Returns usage and user ID of the primary key, or the reason to refuse it.
    fn primary(&self) -> Result<(Option<u8>, Option<String>), Refusal> {
        let key = &self.certificate.primary;
        let mut name = KeyName {
            fingerprint: key.fingerprint,
            primary: None,
            user: self.first_user(),
        };
        usable(key, &name)?;
        let mut all = Statements::default();
        let mut revokers = Vec::new();
        for component in &self.certificate.components {
            match component.what {
                What::Primary => {
                    if let Some(revoked) = self.revoked(component) {
                        return Err(revoked.refusal(name));
                    }
                    let is_wanted = |it| it == kind::DIRECT_KEY;
                    all.on_key = self.good(component, is_wanted);
                    revokers.extend(all.on_key.iter().flat_map(|it| &it.says.revokers).copied());
                    let newest = all.on_key.iter().filter_map(Signature::created).max();
                    all.limits.extend(self.limits(component, is_wanted, newest));
                }
                What::User(_) | What::Attribute(_) => {
                    let is_wanted = |it| kind::CERTIFICATIONS.contains(&it);
                    let signature = newest(self.good(component, is_wanted));
                    let made = signature.as_ref().and_then(Signature::created);
                    if self
                        .name_revoked(component)
                        .is_some_and(|at| Some(at) >= made)
                    {
                        continue;
                    }
                    all.limits.extend(self.limits(component, is_wanted, made));
                    if let Some(signature) = signature {
                        revokers.extend(&signature.says.revokers);
                        all.on_users.push((signature, component));
                    }
                }
                What::Subkey(_) | What::Other(_) => {}
            }
        }
        // The revokers' keys are not available, so their revocations count unverified.
        if self.is_revoked_for_others(&revokers) {
            return Err(Refusal::KeyRevoked(name));
        }
        let said = all
            .together()
            .ok_or_else(|| Refusal::NotCertified(name.clone()))?;
        name.user = said.user;
        if let Some(on) = expiry(key, said.key_lifetime).filter(|on| *on <= self.now) {
            return Err(Refusal::KeyExpired(name, Date(on)));
        }
        Ok((said.flags, name.user))
    }

    /// Returns the usage of a subkey, or the reason to refuse it.
    fn subkey(&self, key: &Key, name: &KeyName) -> Result<Option<u8>, Refusal> {
        let is_it = |it: &&Component| matches!(&it.what, What::Subkey(one) if one == key);
        let components: Vec<_> = self.certificate.components.iter().filter(is_it).collect();
        if let Some(revoked) = components.iter().find_map(|it| self.revoked(it)) {
            return Err(revoked.refusal(name.clone()));
        }
        let is_wanted = |it| it == kind::SUBKEY_BINDING;
        let all = components.iter().flat_map(|it| self.good(it, is_wanted));
        let bound = newest(all.collect()).ok_or_else(|| Refusal::NotBound(name.clone()))?;
        let made = bound.created();
        let limits = components.iter();
        let limits: Vec<_> = limits
            .flat_map(|it| self.limits(it, is_wanted, made))
            .collect();
        let lifetime = [&bound]
            .into_iter()
            .chain(&limits)
            .filter_map(lifetime)
            .min();
        if let Some(on) = expiry(key, lifetime).filter(|on| *on <= self.now) {
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

    /// Returns the signatures by the primary key with wanted types that are valid now.
    fn good(&self, component: &Component, wanted: impl Fn(u8) -> bool) -> Vec<Signature> {
        let is_good = |it: &Signature| {
            wanted(it.kind)
                && it.says.unknown_critical.is_none()
                && self.is_in_time(it, &self.certificate.primary)
                && self.verified_on(it, component) == Ok(())
        };
        self.signatures(component).filter(is_good).collect()
    }

    /// Returns the signatures of the primary key that are newer than the valid ones and only count as restrictions:
    /// they are from the future, or cannot be verified or understood.
    fn limits(
        &self,
        component: &Component,
        wanted: impl Fn(u8) -> bool,
        believed: Option<u64>,
    ) -> Vec<Signature> {
        let is_limit = |it: &Signature| {
            let is_ended = it.expires().is_some_and(|end| end <= self.now);
            if !wanted(it.kind) || is_ended || it.created() <= believed {
                return false;
            }
            match self.verified_on(it, component) {
                Ok(()) => true,
                Err(Fault::Wrong) => false,
                Err(Fault::Weak(_) | Fault::Unsupported(_)) => {
                    believed.is_some() && it.names_its_key()
                }
            }
        };
        self.signatures(component).filter(is_limit).collect()
    }

    /// Returns the signatures that may be by the primary key.
    fn signatures<'a>(&'a self, component: &'a Component) -> impl Iterator<Item = Signature> + 'a {
        let parsed = component.signatures.iter();
        let parsed = parsed.filter_map(|body| Signature::parse(body).ok());
        parsed.filter(|it| it.may_be_by(&self.certificate.primary.fingerprint))
    }

    /// Reports whether the time now is within a signature's validity.
    pub(crate) fn is_in_time(&self, signature: &Signature, by: &Key) -> bool {
        let made = signature.created();
        made.is_some_and(|made| (by.created..=self.now.saturating_add(SKEW)).contains(&made))
            && signature.expires().is_none_or(|end| end > self.now)
    }

    pub(crate) fn verified_on(
        &self,
        signature: &Signature,
        component: &Component,
    ) -> Result<(), Fault> {
        let key = &self.certificate.primary;
        self.verified(signature, key, &[&key.hashed, &component.hashed()])
    }

    fn verified(&self, signature: &Signature, key: &Key, parts: &[&[u8]]) -> Result<(), Fault> {
        let Some(left) = self.left.get().checked_sub(1) else {
            let too_many = format!("a key with more than {MAX_VERIFIED} self-signatures");
            return Err(Fault::Unsupported(too_many));
        };
        self.left.set(left);
        verify(key, signature, parts, About::OwnKeys)
    }

    /// Returns the first user ID, unverified.
    fn first_user(&self) -> Option<String> {
        self.certificate.components.iter().find_map(user)
    }
}

impl Certificate {
    /// Returns the primary key and the supported subkeys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        let subkeys = self.components.iter().filter_map(|it| match &it.what {
            What::Subkey(key) => Some(key),
            _ => None,
        });
        std::iter::once(&self.primary).chain(subkeys)
    }
}

impl Statements<'_> {
    /// Combines all signatures.
    fn together(&self) -> Option<Said> {
        // A direct-key signature may have another purpose, for example to name revokers.
        let is_about_key = |it: &&Signature| {
            self.on_users.is_empty() || it.says.key_lifetime.is_some() || it.says.flags.is_some()
        };
        let on_key: Vec<&Signature> = self.on_key.iter().filter(is_about_key).collect();
        let users: Vec<&Signature> = self.on_users.iter().map(|(it, _)| it).collect();
        if on_key.is_empty() && users.is_empty() {
            return None;
        }
        let key_lifetime = decided(&on_key, &users, &self.limits, lifetime, u32::min);
        let flags = |it: &Signature| it.says.flags;
        let flags = decided(&on_key, &users, &self.limits, flags, |one, other| {
            one & other
        });
        let names = self.on_users.iter();
        let first = names.clone().filter(|(it, _)| it.says.is_primary_user);
        let user = first.chain(names).find_map(|(_, it)| user(it));
        Some(Said {
            key_lifetime,
            flags,
            user,
        })
    }
}

/// Returns the effective value of a property: from the newest direct-key signature, otherwise from the newest user ID
/// signature that contains it. Of two signatures with the same time the stricter one counts.
fn decided<T: Copy>(
    on_key: &[&Signature],
    users: &[&Signature],
    limits: &[Signature],
    what: impl Fn(&Signature) -> Option<T>,
    stricter: impl Fn(T, T) -> T,
) -> Option<T> {
    let newest = |all: &[&Signature]| all.iter().filter_map(|it| it.created()).max();
    let last = newest(on_key);
    let last_on_key = on_key.iter().filter(|it| it.created() == last);
    let of_key = last_on_key.filter_map(|it| what(it)).reduce(&stricter);
    let saying: Vec<&Signature> = users
        .iter()
        .filter(|it| what(it).is_some())
        .copied()
        .collect();
    let newest_of_users = newest(&saying);
    // If there is a direct-key signature, user ID signatures can only restrict it.
    let later = saying.iter().filter(|it| match of_key {
        Some(_) => it.created() > last,
        None => it.created() == newest_of_users,
    });
    let limits = limits.iter().filter_map(&what);
    let others = later.filter_map(|it| what(it)).chain(limits);
    of_key.into_iter().chain(others).reduce(&stricter)
}

fn newest(signatures: Vec<Signature>) -> Option<Signature> {
    signatures.into_iter().max_by_key(Signature::created)
}

/// Returns the lifetime of a key; `None` if it does not expire.
fn lifetime(signature: &Signature) -> Option<u32> {
    signature.says.key_lifetime.filter(|seconds| *seconds != 0)
}

/// Checks that signatures of a key can be verified.
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

/// Returns the expiration time of a key, if there is one.
fn expiry(key: &Key, lifetime: Option<u32>) -> Option<u64> {
    let lifetime = lifetime.filter(|seconds| *seconds != 0)?;
    Some(key.created + u64::from(lifetime))
}

/// Checks the time of a data signature made by `key`.
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
