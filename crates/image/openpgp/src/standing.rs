//! What a key is worth at a time: by what its owner has signed of it.
//!
//! Of what is said of one thing the newest counts: of the primary key alone, of each name of its owner, of each subkey.
//! Until when the primary key is good, and what it is for, is said of the key alone, and else of a name: the newest
//! that says something of that counts. What was said of a name later may be less, but not more. What frees a key must
//! be verified, and not be from the future; what limits it counts anyway.

use std::cell::Cell;

use crate::certificate::{Certificate, Component, What};
use crate::crypto::{About, Fault, verify};
use crate::error::Date;
use crate::key::Key;
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
    pub(crate) certificate: &'c Certificate,
    now: u64,
    /// What is left of [`MAX_VERIFIED`].
    left: Cell<usize>,
}

/// What a key says of itself.
struct Said {
    key_lifetime: Option<u32>,
    flags: Option<u8>,
    user: Option<String>,
}

/// What is said of the primary key.
#[derive(Default)]
struct Statements<'c> {
    /// Of the key alone.
    on_key: Vec<Signature>,
    /// The newest of each name.
    on_users: Vec<(Signature, &'c Component)>,
    /// What is not believed for all else, but as a limit.
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

    /// What the primary key is for, and whose; or why it is worth nothing.
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
        // Those keys are not here; who names them is taken at their word.
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

    /// What a subkey is for; or why it is worth nothing.
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

    /// What the primary key says of something later than what is believed, and is not believed: it is from the future,
    /// or can't be verified or understood.
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

    /// The signatures on something that may be by the primary key.
    fn signatures<'a>(&'a self, component: &'a Component) -> impl Iterator<Item = Signature> + 'a {
        let parsed = component.signatures.iter();
        let parsed = parsed.filter_map(|body| Signature::parse(body).ok());
        parsed.filter(|it| it.may_be_by(&self.certificate.primary.fingerprint))
    }

    /// Whether a signature of a key holds now.
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

impl Statements<'_> {
    /// What holds of all that is said.
    fn together(&self) -> Option<Said> {
        // What is signed of the key alone may be about something else, such as who may revoke it.
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

/// What holds of one thing: what was said of the key alone last, else what was said of it with a name last. Of two things
/// said at once the stricter one holds.
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
    // A name's word is only for less where there is one of the key alone.
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

/// How long a key is good, if that ends.
fn lifetime(signature: &Signature) -> Option<u32> {
    signature.says.key_lifetime.filter(|seconds| *seconds != 0)
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
