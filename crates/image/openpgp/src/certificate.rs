//! A primary key with its user IDs, subkeys and their signatures, all of it unverified.

use crate::key::Key;

/// A key in the form in which it is distributed.
#[derive(Debug)]
pub(crate) struct Certificate {
    pub(crate) primary: Key,
    /// The signed components; the primary key comes first.
    pub(crate) components: Vec<Component>,
}

/// A component with signatures.
#[derive(Debug)]
pub(crate) struct Component {
    pub(crate) what: What,
    /// The bodies of signature packets.
    pub(crate) signatures: Vec<Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The primary key.
    Primary,
    /// A user ID.
    User(Vec<u8>),
    /// A user attribute, usually a picture.
    Attribute(Vec<u8>),
    Subkey(Key),
    /// A subkey that cannot be parsed.
    Other(Vec<u8>),
}

impl Certificate {
    pub(crate) fn new(primary: Key) -> Self {
        Self {
            primary,
            components: vec![Component::new(What::Primary)],
        }
    }

    /// Adds the components of another copy of the same key, such as its revocation.
    pub(crate) fn merge(&mut self, other: Self) {
        for component in other.components {
            let known = self.components.iter_mut();
            match known.into_iter().find(|it| it.what == component.what) {
                None => self.components.push(component),
                Some(known) => {
                    for signature in component.signatures {
                        if !known.signatures.contains(&signature) {
                            known.signatures.push(signature);
                        }
                    }
                }
            }
        }
    }
}

impl Component {
    pub(crate) fn new(what: What) -> Self {
        Self {
            what,
            signatures: Vec::new(),
        }
    }

    /// Returns the bytes that a signature on the component hashes after the primary key.
    pub(crate) fn hashed(&self) -> Vec<u8> {
        let (tag, body) = match &self.what {
            What::Primary | What::Other(_) => return Vec::new(),
            What::Subkey(key) => return key.hashed.clone(),
            What::User(body) => (0xb4, body),
            What::Attribute(body) => (0xd1, body),
        };
        let length = (body.len() as u32).to_be_bytes();
        [&[tag], &length[..], body].concat()
    }
}
