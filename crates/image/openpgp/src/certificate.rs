//! A primary key with its user ids and subkeys, and the signatures on each; nothing of it verified yet.

use crate::key::Key;

/// A key as it is handed around.
#[derive(Debug)]
pub(crate) struct Certificate {
    pub(crate) primary: Key,
    /// What has signatures; first the primary key itself.
    pub(crate) components: Vec<Component>,
}

/// Something with signatures.
#[derive(Debug)]
pub(crate) struct Component {
    pub(crate) what: What,
    /// Bodies of signature packets.
    pub(crate) signatures: Vec<Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The primary key.
    Primary,
    /// A name of its owner.
    User(Vec<u8>),
    /// A picture, mostly.
    Attribute(Vec<u8>),
    Subkey(Key),
    /// A subkey that is not understood.
    Other(Vec<u8>),
}

impl Certificate {
    pub(crate) fn new(primary: Key) -> Self {
        Self {
            primary,
            components: vec![Component::new(What::Primary)],
        }
    }

    /// Adds what another copy of the same key has, such as its revocation.
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

    /// As it is hashed behind the primary key where it is signed.
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
