//! An encrypted message: for whom, and what is in it. `gpg --encrypt` makes such.

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize as _, Zeroizing};

use crate::cfb::{BLOCK, Cipher, Other};
use crate::content::{content, unpacked};
use crate::key::shown;
use crate::packet::{
    AEAD, COMPRESSED, ENCRYPTED, FOR_KEY, FOR_PASSPHRASE, LITERAL, MARKER, PADDING, PROTECTED,
    Packet, packets,
};
use crate::reader::Reader;
use crate::secret::sum;
use crate::{Error, MAX_MESSAGE, SecretKey};

/// Bytes of a message, with all that says for whom it is.
const MAX_ENCRYPTED: usize = 256 << 10;
/// More than anybody encrypts something for.
const MAX_RECIPIENTS: usize = 64;
/// Packets beside those that say for whom it is, and packets within.
const MAX_PACKETS: usize = 8;
/// What ends the content: the head of a packet, and a hash of all before it.
const CHECK_HEAD: [u8; 2] = [0xd3, 0x14];
const CHECK: usize = 20;
/// Two bytes of chance stand twice before the content, so that a wrong key would be noticed early.
const PREFIX: usize = BLOCK + 2;

/// An encrypted message, which nobody has opened yet.
#[derive(Debug)]
pub struct Encrypted {
    recipients: Vec<Recipient>,
    content: Vec<u8>,
}

#[derive(Debug)]
struct Recipient {
    /// The end of a fingerprint; zeros where that is not told.
    key: [u8; 8],
    algorithm: u8,
    /// How the key of the message is wrapped.
    wrapped: Vec<u8>,
}

/// Why a message is not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unopened {
    /// It is for others.
    #[error("no key decrypts it")]
    NoKey,
    /// It is for one that opens nothing any more.
    #[error("the key {0} is revoked")]
    Revoked(crate::Fingerprint),
    /// It is for one of the keys, which does not open it; or what is in it is not what was encrypted.
    #[error("it was modified")]
    Changed,
    /// It is encrypted in a way that is not understood.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// What is in it is not what it should be.
    #[error(transparent)]
    Unreadable(#[from] Error),
    /// As many keys have been tried as may be.
    #[error("too many keys were tried")]
    TooMany,
}

impl Encrypted {
    /// Reads a message, and nothing beside it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > MAX_ENCRYPTED {
            return Err(Error::TooLarge {
                what: "the number of bytes",
                limit: MAX_ENCRYPTED,
            });
        }
        let unsupported = |what: &str| Err(Error::Unsupported(what.to_owned()));
        let (mut recipients, mut content) = (Vec::new(), None);
        for packet in packets(bytes, MAX_RECIPIENTS + MAX_PACKETS)? {
            if content.is_some() {
                return Err(Error::NotOpenPgp("data follows the message"));
            }
            match packet.tag {
                FOR_KEY => recipients.extend(Recipient::parse(&packet.body)?),
                FOR_PASSPHRASE | MARKER | PADDING => {}
                PROTECTED => {
                    let (version, encrypted) = packet.body.split_first().ok_or(Error::Truncated)?;
                    if *version != 1 {
                        return unsupported("encryption with AEAD");
                    }
                    content = Some(encrypted.to_vec());
                }
                AEAD => return unsupported("encryption with AEAD"),
                ENCRYPTED => return unsupported("encryption without an integrity check"),
                _ => return Err(Error::NotOpenPgp("it is not an encrypted message")),
            }
        }
        let content = content.ok_or(Error::NotOpenPgp("it is not an encrypted message"))?;
        if recipients.is_empty() {
            return unsupported("encryption with a passphrase instead of a key");
        }
        if recipients.len() > MAX_RECIPIENTS {
            return Err(Error::TooLarge {
                what: "the number of recipients",
                limit: MAX_RECIPIENTS,
            });
        }
        Ok(Self {
            recipients,
            content,
        })
    }

    /// For which keys it is, by the ends of their fingerprints; those that are hidden are left out.
    pub fn recipients(&self) -> impl Iterator<Item = String> {
        let named = self.recipients.iter().filter(|it| it.is_named());
        named.map(|it| shown(&it.key))
    }

    /// What is in it, opened by one of the keys. `may_try` is asked before each try, which takes a millisecond or
    /// a few.
    pub fn open<'k>(
        &self,
        keys: impl Iterator<Item = &'k SecretKey> + Clone,
        mut may_try: impl FnMut() -> bool,
    ) -> Result<Zeroizing<Vec<u8>>, Unopened> {
        let mut reason = Unopened::NoKey;
        for recipient in &self.recipients {
            for key in keys.clone().filter(|key| recipient.may_be(key)) {
                if key.is_revoked() {
                    if recipient.is_named() {
                        reason = Unopened::Revoked(key.fingerprint());
                    }
                    continue;
                }
                if !may_try() {
                    return Err(Unopened::TooMany);
                }
                match self.opened(recipient, key) {
                    Ok(opened) => return inner(&opened).map_err(Unopened::from),
                    // Another one may be meant.
                    Err(Unopened::Changed) if !recipient.is_named() => {}
                    Err(error) => reason = error,
                }
            }
        }
        Err(reason)
    }

    /// The packets within. Where in this it fails is told nobody: whoever can send messages might learn from it
    /// what is in those of others.
    fn opened(
        &self,
        recipient: &Recipient,
        key: &SecretKey,
    ) -> Result<Zeroizing<Vec<u8>>, Unopened> {
        let session = key.unwrap(recipient.algorithm, &recipient.wrapped);
        let session = session.ok_or(Unopened::Changed)?;
        let (cipher, key) = session_key(&session)?;
        let mut bytes = Zeroizing::new(self.content.clone());
        let decrypted = cipher.decrypt(key, [0; BLOCK], &mut bytes);
        decrypted.ok_or(Unopened::Changed)?;
        let checked = bytes.len().checked_sub(CHECK);
        let length = checked.and_then(|checked| checked.checked_sub(CHECK_HEAD.len()));
        let length = length.filter(|length| *length >= PREFIX);
        let (checked, length) = checked.zip(length).ok_or(Unopened::Changed)?;
        let (all, check) = bytes.split_at(checked);
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, all);
        let is_good = hash.as_ref().ct_eq(check) & all[length..].ct_eq(&CHECK_HEAD);
        if !bool::from(is_good) {
            return Err(Unopened::Changed);
        }
        Ok(Zeroizing::new(all[PREFIX..length].to_vec()))
    }
}

impl Recipient {
    /// Nothing for whom only a newer kind of message can be.
    fn parse(body: &[u8]) -> Result<Option<Self>, Error> {
        let mut reader = Reader::new(body);
        if reader.byte().ok_or(Error::Truncated)? != 3 {
            return Ok(None);
        }
        let malformed = Error::Malformed("the list of recipients");
        let (Some(key), Some(algorithm)) = (reader.array(), reader.byte()) else {
            return Err(malformed);
        };
        Ok(Some(Self {
            key,
            algorithm,
            wrapped: reader.rest().to_vec(),
        }))
    }

    fn is_named(&self) -> bool {
        self.key != [0; 8]
    }

    fn may_be(&self, key: &SecretKey) -> bool {
        !self.is_named() || self.key == key.fingerprint().id()
    }
}

/// A cipher's number, its key, and a sum of that.
fn session_key(bytes: &[u8]) -> Result<(Cipher, &[u8]), Unopened> {
    let changed = Unopened::Changed;
    let [number, rest @ ..] = bytes else {
        return Err(changed);
    };
    let length = rest.len().checked_sub(2).ok_or(Unopened::Changed)?;
    let (key, check) = rest.split_at(length);
    if !bool::from(sum(key).to_be_bytes().ct_eq(check)) {
        return Err(changed);
    }
    match Cipher::of(*number) {
        Ok(cipher) if cipher.key_length() == key.len() => Ok((cipher, key)),
        // All else of it is right.
        Err(Other {
            name,
            key_length: Some(length),
        }) if length == key.len() => Err(Unopened::Unsupported(name)),
        _ => Err(changed),
    }
}

/// What was encrypted: one packet of data, which may be compressed.
fn inner(opened: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
    let outer = packets(opened, MAX_PACKETS)?;
    if let [
        Packet {
            tag: COMPRESSED,
            body,
        },
    ] = &outer[..]
    {
        let inner = Zeroizing::new(unpacked(body)?);
        return data(packets(&inner, MAX_PACKETS)?);
    }
    data(outer)
}

fn data(all: Vec<Packet<'_>>) -> Result<Zeroizing<Vec<u8>>, Error> {
    let found = match &all[..] {
        [Packet { tag: LITERAL, body }] => match content(body) {
            Some(content) if content.len() > MAX_MESSAGE => Err(Error::TooLarge {
                what: "the number of bytes",
                limit: MAX_MESSAGE,
            }),
            Some(content) => Ok(Zeroizing::new(content.to_vec())),
            None => Err(Error::Malformed("the encrypted data")),
        },
        _ => Err(Error::NotOpenPgp("the decrypted content is not data")),
    };
    for packet in all {
        if let std::borrow::Cow::Owned(mut bytes) = packet.body {
            bytes.zeroize();
        }
    }
    found
}
