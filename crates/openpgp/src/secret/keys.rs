//! Private keys, from the files that they are exported to.

use std::borrow::Cow;
use std::fmt;

use zeroize::Zeroizing;

use super::locked::{Locked, MAX_UNLOCKED, Unlock};
use super::private::{Kind, Private, split};
use crate::certificate::Certificate;
use crate::key::{Fingerprint, Key, name};
use crate::keyring::{MAX_PACKETS, certificates};
use crate::packet::{PUBLIC_KEY, PUBLIC_SUBKEY, Packet, SECRET_KEY, SECRET_SUBKEY, packets};
use crate::standing::Standing;
use crate::{Error, armor};

/// A key that opens messages: a primary one or a subkey.
pub struct SecretKey {
    fingerprint: Fingerprint,
    is_revoked: bool,
    private: Private,
}

/// Why a file gives no keys that open messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretKeyError {
    /// It is something else, or damaged.
    #[error(transparent)]
    Unreadable(#[from] Error),
    /// None was given for it.
    #[error("it is protected by a passphrase")]
    NoPassphrase,
    /// It opens nothing.
    #[error("its passphrase is wrong, or it is damaged")]
    WrongPassphrase,
    /// All its keys are for something else.
    #[error("it has no key that can decrypt: {0}")]
    Useless(String),
}

/// Its name, and nothing more.
impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.fingerprint)
    }
}

/// Whether a file seems to hold keys of OpenPGP, as text or as bytes.
pub fn is_keys(file: &[u8]) -> bool {
    armor::is_keys(file)
}

impl SecretKey {
    /// All keys of a file that open messages, those that are revoked as well. The passphrase is for all of them.
    pub fn all_of(file: &[u8], passphrase: Option<&[u8]>) -> Result<Vec<Self>, SecretKeyError> {
        let mut found = Found {
            passphrase,
            unlocked: 0,
            keys: Vec::new(),
            useless: None,
        };
        for block in armor::private_keys(file)? {
            found.read(&packets(&block, MAX_PACKETS)?)?;
        }
        if found.keys.is_empty() {
            let reason = found.useless.ok_or(Error::NoPrivate)?;
            return Err(SecretKeyError::Useless(reason));
        }
        Ok(found.keys)
    }

    /// By what it is known.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Whether the file says that it is good for nothing any more.
    pub fn is_revoked(&self) -> bool {
        self.is_revoked
    }

    /// What was wrapped for this key, by an algorithm's number; nothing if it was wrapped for another.
    pub(crate) fn unwrap(&self, algorithm: u8, wrapped: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        self.private.unwrap(algorithm, wrapped)
    }
}

struct Found<'a> {
    passphrase: Option<&'a [u8]>,
    /// How many were freed of their passphrase, which takes its time.
    unlocked: usize,
    keys: Vec<SecretKey>,
    /// Why one that is there opens nothing.
    useless: Option<String>,
}

impl Found<'_> {
    /// Reads one block: first all that is public of it, whose signatures say what is revoked.
    fn read(&mut self, packets: &[Packet<'_>]) -> Result<(), SecretKeyError> {
        let mut public = Vec::with_capacity(packets.len());
        let mut parts = Vec::new();
        for packet in packets {
            let tag = match packet.tag {
                SECRET_KEY => PUBLIC_KEY,
                SECRET_SUBKEY => PUBLIC_SUBKEY,
                tag => {
                    let body = Cow::Borrowed(&*packet.body);
                    public.push(Packet { tag, body });
                    continue;
                }
            };
            let (body, secret) = match split(&packet.body) {
                Some((body, secret)) => (body, Some(secret)),
                None => (&*packet.body, None),
            };
            parts.push((tag, body, secret));
            let body = Cow::Borrowed(body);
            public.push(Packet { tag, body });
        }
        let mut unknown = None;
        let certificates = certificates(&public, &mut unknown)?;
        self.useless = self.useless.take().or(unknown.map(|it| it.to_string()));
        for (tag, body, secret) in parts {
            match (Key::parse(body), secret) {
                (Ok(key), Some(secret)) => self.add(&key, body, secret, &certificates)?,
                (Ok(key), None) => self.note(format!("{} is not supported", name(key.algorithm))),
                // Of a subkey that is not understood the others matter.
                (Err(error), _) if tag == PUBLIC_SUBKEY => self.note(error.to_string()),
                (Err(_), _) => {}
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        key: &Key,
        public: &[u8],
        secret: &[u8],
        certificates: &[Certificate],
    ) -> Result<(), SecretKeyError> {
        let kind = match Kind::of(key, public) {
            Ok(kind) => kind,
            Err(reason) => {
                self.note(reason);
                return Ok(());
            }
        };
        let locked = Locked::parse(secret)?;
        if locked.has_passphrase() {
            self.unlocked += 1;
            if self.unlocked > MAX_UNLOCKED {
                let what = "the number of keys with a passphrase";
                let limit = MAX_UNLOCKED;
                return Err(Error::TooLarge { what, limit }.into());
            }
        }
        let secret = match locked.open(self.passphrase)? {
            Unlock::Open(secret) => secret,
            Unlock::Elsewhere => {
                self.note("its private part is not in the file".to_owned());
                return Ok(());
            }
        };
        let private = kind
            .with(&secret)
            .ok_or(Error::Malformed("a private key"))?;
        let of = certificates
            .iter()
            .find(|it| it.keys().any(|one| one == key));
        self.keys.push(SecretKey {
            fingerprint: key.fingerprint,
            is_revoked: of.is_some_and(|of| Standing::is_taken_back(of, key)),
            private,
        });
        Ok(())
    }

    /// The last reason is told: subkeys come behind the primary key, and are what encrypts.
    fn note(&mut self, reason: String) {
        self.useless = Some(reason);
    }
}
