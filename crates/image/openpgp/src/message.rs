//! A signed message: one signature and its content, as `gpg --sign` creates it.

use crate::certificate::Certificate;
use crate::content::{content, unpacked};
use crate::crypto::{About, Fault, verify};
use crate::fingerprint::shown;
use crate::key::Key;
use crate::keyring::Keyring;
use crate::packet::{COMPRESSED, LITERAL, ONE_PASS, Packet, SIGNATURE, packets};
use crate::reader::Reader;
use crate::signature::{Signature, kind};
use crate::standing::{Standing, in_time};
use crate::{Error, KeyName, MAX_MESSAGE, Refusal};

/// Maximum number of packets in a message.
const MAX_PACKETS: usize = 8;

/// A message with one signature, which is not verified yet.
#[derive(Debug)]
pub struct Message {
    content: Vec<u8>,
    signature: Signature,
    /// The signing key according to the one-pass signature packet.
    announced: [u8; 8],
}

/// A verified message.
#[derive(Debug, PartialEq, Eq)]
pub struct Verified<'m> {
    /// The signed content.
    pub content: &'m [u8],
    /// The signing key.
    pub signer: KeyName,
}

impl Message {
    /// Parses a message; refuses any additional data.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let too_large = |what| Error::TooLarge {
            what,
            limit: MAX_MESSAGE,
        };
        if bytes.len() > MAX_MESSAGE {
            return Err(too_large("the number of bytes"));
        }
        if bytes.is_empty() {
            return Err(Error::NotOpenPgp("it is empty"));
        }
        let outer = packets(bytes, MAX_PACKETS)?;
        if let [
            Packet {
                tag: COMPRESSED,
                body,
            },
        ] = &outer[..]
        {
            let inner = unpacked(body)?;
            return Self::of(&packets(&inner, MAX_PACKETS)?);
        }
        Self::of(&outer)
    }

    /// Expects exactly a one-pass signature, the content, and the signature.
    fn of(all: &[Packet<'_>]) -> Result<Self, Error> {
        let tags: Vec<u8> = all.iter().map(|packet| packet.tag).collect();
        if tags != [ONE_PASS, LITERAL, SIGNATURE] {
            let signatures = all.iter().filter(|packet| packet.tag == SIGNATURE);
            let names: Vec<String> = tags.iter().map(|tag| name(*tag)).collect();
            let names = names.join(", ");
            return Err(Error::Shape(match signatures.count() {
                0 => format!("it has no signature, but {names}"),
                1 => format!("it has other packets: {names}"),
                count => format!("it has {count} signatures"),
            }));
        }
        let [announced, literal, signature] = all else {
            return Err(Error::Malformed("a message"));
        };
        let signature = Signature::parse(&signature.body)?;
        let announced = announced_by(&announced.body, &signature)?;
        let content = content(&literal.body).ok_or(Error::Malformed("the signed content"))?;
        Ok(Self {
            content: content.to_vec(),
            signature,
            announced,
        })
    }

    /// Verifies the message at a time in seconds since the epoch. Returns the content and the signer, or the reason
    /// to refuse it.
    pub fn verify(&self, keys: &Keyring, now: u64) -> Result<Verified<'_>, Refusal> {
        let signature = &self.signature;
        if signature.kind != kind::BINARY {
            return Err(Refusal::NotOfData(signature.kind));
        }
        if let Some(subpacket) = signature.says.unknown_critical {
            return Err(Refusal::Critical(subpacket));
        }
        let mut refusal = None;
        for certificate in keys.certificates.values() {
            for key in certificate.keys().filter(|key| self.may_be_by(key)) {
                match self.by(certificate, key, now) {
                    Ok(signer) => {
                        let content = &self.content;
                        return Ok(Verified { content, signer });
                    }
                    Err(reason) => refusal = Some(reason),
                }
            }
        }
        Err(refusal.unwrap_or_else(|| Refusal::UnknownKey(self.issuer())))
    }

    /// Checks that one key has made the signature and was allowed to.
    fn by(&self, certificate: &Certificate, key: &Key, now: u64) -> Result<KeyName, Refusal> {
        // The signature is checked first: the state of a key that did not make it does not matter.
        let made = verify(key, &self.signature, &[&self.content], About::Data);
        let standing = || Standing::signer(certificate, key, now);
        match made {
            Ok(()) => {}
            Err(Fault::Weak(hash)) => return Err(Refusal::WeakHash(hash)),
            Err(Fault::Unsupported(what)) => {
                // A revoked or too short key is the more useful reason.
                standing()?;
                return Err(Refusal::Unsupported(what));
            }
            Err(Fault::Wrong) => {
                let primary = certificate.primary.fingerprint;
                return Err(Refusal::Wrong(KeyName {
                    fingerprint: key.fingerprint,
                    primary: Some(primary).filter(|it| *it != key.fingerprint),
                    user: None,
                }));
            }
        }
        let name = standing()?;
        in_time(&self.signature, key, &name, now)?;
        Ok(name)
    }

    /// Returns the signature's own data that is signed with the content, for example its creation time.
    pub fn trailer(&self) -> &[u8] {
        &self.signature.trailer
    }

    fn may_be_by(&self, key: &Key) -> bool {
        if !self.signature.names_its_key() {
            return key.fingerprint.id() == self.announced;
        }
        self.signature.may_be_by(&key.fingerprint)
    }

    /// Returns the signing key as the signature claims it, unverified.
    fn issuer(&self) -> String {
        let says = &self.signature.says;
        match says.issuer {
            Some(issuer) => issuer.to_string(),
            None => shown(&says.issuer_id.unwrap_or(self.announced)),
        }
    }
}

/// Returns the signing key of the one-pass signature packet, which must match the signature.
fn announced_by(body: &[u8], signature: &Signature) -> Result<[u8; 8], Error> {
    let mut reader = Reader::new(body);
    let version = reader.byte();
    if version != Some(3) {
        return Err(Error::Unsupported(
            "a signature of another version".to_owned(),
        ));
    }
    let malformed = Error::Malformed("the one-pass signature packet");
    let (Some(how), Some(key), Some(is_last)) = (reader.array(), reader.array(), reader.byte())
    else {
        return Err(malformed);
    };
    if !reader.is_empty() {
        return Err(malformed);
    }
    if is_last == 0 {
        return Err(Error::Shape(
            "its one-pass packet announces a second signature".to_owned(),
        ));
    }
    let [kind, hash, algorithm]: [u8; 3] = how;
    if (kind, hash, algorithm) != (signature.kind, signature.hash, signature.algorithm) {
        return Err(Error::Shape(
            "the signature does not match its one-pass packet".to_owned(),
        ));
    }
    Ok(key)
}

/// Returns the usual name of a packet type.
fn name(tag: u8) -> String {
    let name = match tag {
        SIGNATURE => "a signature",
        ONE_PASS => "a one-pass signature packet",
        COMPRESSED => "compressed data",
        LITERAL => "data",
        1 | 3 | 9 | 18 | 20 => "encrypted data",
        5 | 6 | 7 | 14 => "a key",
        13 => "a user ID",
        other => return format!("a packet of type {other}"),
    };
    name.to_owned()
}
