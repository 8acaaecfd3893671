//! Subpackets of signatures (RFC 9580, 5.2.3): creation time, issuer, validity, and properties of keys.

use crate::Error;
use crate::fingerprint::Fingerprint;
use crate::packet::length_of_subpacket;
use crate::reader::Reader;

/// The subpackets of a signature.
#[derive(Debug, Clone, Default)]
pub(crate) struct Subpackets {
    /// Creation time in seconds since the epoch.
    pub(crate) created: Option<u32>,
    /// Validity in seconds; `None` or zero means no expiry.
    pub(crate) lifetime: Option<u32>,
    /// Validity of the key in seconds from its creation.
    pub(crate) key_lifetime: Option<u32>,
    /// The usage flags of the key.
    pub(crate) flags: Option<u8>,
    /// Whether the user ID is the primary one.
    pub(crate) is_primary_user: bool,
    /// Other keys that may revoke this key.
    pub(crate) revokers: Vec<Fingerprint>,
    /// The signing key; unverified.
    pub(crate) issuer: Option<Fingerprint>,
    pub(crate) issuer_id: Option<[u8; 8]>,
    /// The back-signature of the subkey on the primary key.
    pub(crate) embedded: Option<Vec<u8>>,
    /// The type of an unknown critical subpacket.
    pub(crate) unknown_critical: Option<u8>,
}

/// Types that may be marked as critical: they are evaluated here, or do not restrict the signature.
const KNOWN: [u8; 21] = [
    2, 3, 4, 7, 9, 11, 12, 16, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 32, 33, 34,
];

const CRITICAL: u8 = 0x80;

impl Subpackets {
    /// Parses the hashed subpackets, and the unhashed ones that prove themselves.
    pub(crate) fn parse(hashed: &[u8], unhashed: &[u8]) -> Result<Self, Error> {
        let mut all = Self::default();
        for (bytes, is_hashed) in [(hashed, true), (unhashed, false)] {
            let mut reader = Reader::new(bytes);
            while !reader.is_empty() {
                let one = length_of_subpacket(&mut reader)
                    .and_then(|length| reader.take(length))
                    .and_then(<[u8]>::split_first)
                    .and_then(|(kind, body)| all.add(*kind, body, is_hashed));
                one.ok_or(Error::Malformed("a subpacket of a signature"))?;
            }
        }
        Ok(all)
    }

    /// Stores a subpacket; returns `None` if it is malformed or a duplicate.
    fn add(&mut self, kind: u8, body: &[u8], is_hashed: bool) -> Option<()> {
        let is_critical = kind & CRITICAL != 0;
        let kind = kind & !CRITICAL;
        if is_critical && !KNOWN.contains(&kind) {
            self.unknown_critical = Some(kind);
        }
        match (kind, is_hashed) {
            (2, true) => once(&mut self.created, number(body)?)?,
            (3, true) => once(&mut self.lifetime, number(body)?)?,
            (9, true) => once(&mut self.key_lifetime, number(body)?)?,
            (27, true) => once(&mut self.flags, body.first().copied().unwrap_or(0))?,
            (25, true) => self.is_primary_user = *body.first()? != 0,
            // Class, algorithm and fingerprint.
            (12, true) => self
                .revokers
                .push(Fingerprint(body.get(2..)?.try_into().ok()?)),
            // Hashed subpackets come first and take precedence.
            (16, _) => drop(self.issuer_id.get_or_insert(body.try_into().ok()?)),
            (32, _) => drop(self.embedded.get_or_insert(body.to_vec())),
            (33, _) => {
                let (version, fingerprint) = body.split_first()?;
                if *version == 4 {
                    let fingerprint = Fingerprint(fingerprint.try_into().ok()?);
                    self.issuer.get_or_insert(fingerprint);
                }
            }
            _ => {}
        }
        Some(())
    }
}

fn number(body: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(body.try_into().ok()?))
}

fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}
