//! Signature packets.

use crate::Error;
use crate::fingerprint::Fingerprint;
use crate::reader::Reader;
use crate::subpacket::Subpackets;

/// Signature types.
pub(crate) mod kind {
    pub(crate) const BINARY: u8 = 0x00;
    /// Certifications of a user ID, with four levels of verification.
    pub(crate) const CERTIFICATIONS: std::ops::RangeInclusive<u8> = 0x10..=0x13;
    pub(crate) const SUBKEY_BINDING: u8 = 0x18;
    pub(crate) const PRIMARY_KEY_BINDING: u8 = 0x19;
    pub(crate) const DIRECT_KEY: u8 = 0x1f;
    pub(crate) const KEY_REVOCATION: u8 = 0x20;
    pub(crate) const SUBKEY_REVOCATION: u8 = 0x28;
    pub(crate) const CERTIFICATION_REVOCATION: u8 = 0x30;
}

/// An unverified signature of version 4.
#[derive(Debug, Clone)]
pub(crate) struct Signature {
    pub(crate) kind: u8,
    /// The number of the public key algorithm.
    pub(crate) algorithm: u8,
    /// The number of the hash algorithm.
    pub(crate) hash: u8,
    /// The bytes that are hashed after the signed bytes.
    pub(crate) trailer: Vec<u8>,
    /// The first two bytes of the hash.
    pub(crate) beginning: [u8; 2],
    /// The numbers of the signature, specific to the algorithm.
    pub(crate) values: Vec<u8>,
    pub(crate) says: Subpackets,
}

impl Signature {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(body);
        let version = reader.byte().ok_or(Error::Truncated)?;
        if version != 4 {
            let what = format!("a signature of version {version}");
            return Err(Error::Unsupported(what));
        }
        read(body, &mut reader)?.ok_or(Error::Malformed("a signature"))
    }

    /// Reports whether the key may have made it: the signature names this key, or none.
    pub(crate) fn may_be_by(&self, key: &Fingerprint) -> bool {
        match (&self.says.issuer, &self.says.issuer_id) {
            (Some(issuer), _) => issuer == key,
            (None, Some(id)) => *id == key.id(),
            (None, None) => true,
        }
    }

    /// Reports whether the signature names its key.
    pub(crate) fn names_its_key(&self) -> bool {
        self.says.issuer.is_some() || self.says.issuer_id.is_some()
    }

    /// Returns the creation time.
    pub(crate) fn created(&self) -> Option<u64> {
        self.says.created.map(u64::from)
    }

    /// Returns the expiration time, if there is one.
    pub(crate) fn expires(&self) -> Option<u64> {
        let lifetime = self.says.lifetime.filter(|seconds| *seconds != 0)?;
        Some(self.created()? + u64::from(lifetime))
    }
}

/// Parses the fields after the version.
fn read(body: &[u8], reader: &mut Reader<'_>) -> Result<Option<Signature>, Error> {
    let Some([kind, algorithm, hash]) = reader.array() else {
        return Ok(None);
    };
    let Some(hashed) = reader.u16().and_then(|length| reader.take(length)) else {
        return Ok(None);
    };
    // The version, the next three bytes, the length, and the hashed subpackets of that length.
    let signed = 6 + hashed.len();
    let Some(unhashed) = reader.u16().and_then(|length| reader.take(length)) else {
        return Ok(None);
    };
    let Some(beginning) = reader.array() else {
        return Ok(None);
    };
    let says = Subpackets::parse(hashed, unhashed)?;
    let mut trailer = body[..signed].to_vec();
    trailer.extend([4, 0xff]);
    trailer.extend((signed as u32).to_be_bytes());
    Ok(Some(Signature {
        kind,
        algorithm,
        hash,
        trailer,
        beginning,
        values: reader.rest().to_vec(),
        says,
    }))
}
