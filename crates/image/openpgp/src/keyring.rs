//! Trusted keys, from key files.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::certificate::{Certificate, Component, What};
use crate::fingerprint::Fingerprint;
use crate::key::Key;
use crate::packet::{
    MARKER, PADDING, PUBLIC_KEY, PUBLIC_SUBKEY, Packet, SECRET_KEY, SECRET_SUBKEY, SIGNATURE,
    TRUST, USER_ATTRIBUTE, USER_ID, packets,
};
use crate::standing::Standing;
use crate::{Error, Refusal, armor};

/// Maximum number of packets per file.
const MAX_PACKETS: usize = 20_000;

/// The first packet type that a parser may ignore if it is unknown.
const FIRST_UNCRITICAL: u8 = 40;

/// A set of trusted keys.
#[derive(Debug, Default)]
pub struct Keyring {
    pub(crate) certificates: BTreeMap<Fingerprint, Certificate>,
}

impl Keyring {
    /// Creates an empty keyring.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds all keys of a file, in text or binary form. Copies of a key in several files are merged. A key that is
    /// present but cannot be used is not an error here; [`Self::check`] reports it.
    pub fn add(&mut self, file: &[u8]) -> Result<(), Error> {
        let mut unknown = None;
        let mut found = false;
        for block in armor::keys(file)? {
            let packets = packets(&block, MAX_PACKETS)?;
            for certificate in certificates(&packets, &mut unknown)? {
                found = true;
                match self.certificates.entry(certificate.primary.fingerprint) {
                    Entry::Occupied(mut known) => known.get_mut().merge(certificate),
                    Entry::Vacant(free) => drop(free.insert(certificate)),
                }
            }
        }
        match unknown {
            _ if found => Ok(()),
            Some(error) => Err(error),
            None => Err(Error::NoKey),
        }
    }

    /// Reports whether any key is valid at this time, in seconds since the epoch; otherwise why none is.
    pub fn check(&self, now: u64) -> Result<(), Refusal> {
        let mut reason = None;
        for certificate in self.certificates.values() {
            match Standing::any_signer(certificate, now) {
                Ok(()) => return Ok(()),
                Err(refusal) => reason = Some(refusal),
            }
        }
        reason.map_or(Ok(()), Err)
    }
}

/// Parses packets as keys. Skips keys of unsupported versions, and reports one of them in `unknown`.
fn certificates(
    packets: &[Packet<'_>],
    unknown: &mut Option<Error>,
) -> Result<Vec<Certificate>, Error> {
    let mut all: Vec<Certificate> = Vec::new();
    // Whether the next packets belong to a skipped key.
    let mut skipping = false;
    for packet in packets {
        let body = || packet.body.to_vec();
        match packet.tag {
            PUBLIC_KEY => match Key::parse(&packet.body) {
                Ok(key) => {
                    skipping = false;
                    all.push(Certificate::new(key));
                }
                Err(error @ Error::Unsupported(_)) => {
                    skipping = true;
                    *unknown = Some(error);
                }
                Err(error) => return Err(error),
            },
            SECRET_KEY | SECRET_SUBKEY => return Err(Error::Private),
            MARKER | TRUST | PADDING | FIRST_UNCRITICAL.. => {}
            _ if skipping => {}
            kind => {
                let certificate = all.last_mut();
                let components = certificate.map(|it| &mut it.components);
                let components =
                    components.ok_or(Error::NotOpenPgp("it does not begin with a key"))?;
                let what = match kind {
                    SIGNATURE => {
                        if let Some(component) = components.last_mut() {
                            component.signatures.push(body());
                        }
                        continue;
                    }
                    USER_ID => What::User(body()),
                    USER_ATTRIBUTE => What::Attribute(body()),
                    PUBLIC_SUBKEY => match Key::parse(&packet.body) {
                        Ok(key) => What::Subkey(key),
                        Err(_) => What::Other(body()),
                    },
                    _ => {
                        return Err(Error::NotOpenPgp(
                            "it has packets that do not belong to a key",
                        ));
                    }
                };
                components.push(Component::new(what));
            }
        }
    }
    Ok(all)
}
