//! Keys of which every packet is made by hand, as GnuPG makes none.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};

/// What signatures are about.
pub(crate) const CERTIFICATION: u8 = 0x13;
pub(crate) const BINDING: u8 = 0x18;
pub(crate) const BACK: u8 = 0x19;
pub(crate) const DIRECT: u8 = 0x1f;
pub(crate) const KEY_REVOCATION: u8 = 0x20;
pub(crate) const SUBKEY_REVOCATION: u8 = 0x28;
pub(crate) const NAME_REVOCATION: u8 = 0x30;

/// A key with its secret.
pub(crate) struct Made {
    pair: Ed25519KeyPair,
    body: Vec<u8>,
    pub(crate) created: u32,
}

/// A signature as it is to be.
#[derive(Clone, Default)]
pub(crate) struct Wish {
    pub(crate) kind: u8,
    /// When it is made.
    pub(crate) at: u32,
    /// The subpackets beside that.
    pub(crate) says: Vec<(u8, Vec<u8>)>,
    /// What is written instead of the right version, algorithm and hash.
    pub(crate) version: Option<u8>,
    pub(crate) algorithm: Option<u8>,
    pub(crate) hash: Option<u8>,
}

impl Wish {
    pub(crate) fn new(kind: u8, at: u32) -> Self {
        Self {
            kind,
            at,
            ..Self::default()
        }
    }

    /// For how many seconds the key is good, from its beginning on.
    pub(crate) fn for_seconds(self, seconds: u32) -> Self {
        self.saying(9, &seconds.to_be_bytes())
    }

    /// What the key is for.
    pub(crate) fn flags(self, flags: u8) -> Self {
        self.saying(27, &[flags])
    }

    pub(crate) fn saying(mut self, kind: u8, body: &[u8]) -> Self {
        self.says.push((kind, body.to_vec()));
        self
    }
}

impl Made {
    pub(crate) fn new(created: u32) -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
        let mut body = vec![4];
        body.extend(created.to_be_bytes());
        body.push(22);
        body.extend([9, 0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01]);
        body.extend(number(&[&[0x40], pair.public_key().as_ref()].concat()));
        Self {
            pair,
            body,
            created,
        }
    }

    pub(crate) fn packet(&self) -> Vec<u8> {
        packet(6, &self.body)
    }

    pub(crate) fn sub_packet(&self) -> Vec<u8> {
        packet(14, &self.body)
    }

    /// As it is hashed where it is signed.
    pub(crate) fn hashed(&self) -> Vec<u8> {
        let length = u16::try_from(self.body.len()).unwrap().to_be_bytes();
        [&[0x99], &length[..], &self.body].concat()
    }

    pub(crate) fn fingerprint(&self) -> Vec<u8> {
        digest(&SHA1_FOR_LEGACY_USE_ONLY, &self.hashed())
            .as_ref()
            .to_vec()
    }

    /// The body of a signature of these parts.
    pub(crate) fn sign(&self, wish: &Wish, parts: &[&[u8]]) -> Vec<u8> {
        let mut says = vec![(2, wish.at.to_be_bytes().to_vec())];
        says.push((33, [&[4], &self.fingerprint()[..]].concat()));
        says.extend(wish.says.clone());
        let hashed: Vec<u8> = says
            .iter()
            .flat_map(|(kind, body)| sub(*kind, body))
            .collect();
        let mut signature = vec![
            wish.version.unwrap_or(4),
            wish.kind,
            wish.algorithm.unwrap_or(22),
            wish.hash.unwrap_or(8),
        ];
        signature.extend(u16::try_from(hashed.len()).unwrap().to_be_bytes());
        signature.extend(&hashed);
        let length = u32::try_from(signature.len()).unwrap().to_be_bytes();
        let message = [&parts.concat(), &signature[..], &[4, 0xff], &length].concat();
        let hash = digest(&SHA256, &message);
        let made = self.pair.sign(hash.as_ref());
        let (r, s) = made.as_ref().split_at(32);
        let unhashed = sub(16, &self.fingerprint()[12..]);
        signature.extend(u16::try_from(unhashed.len()).unwrap().to_be_bytes());
        signature.extend(unhashed);
        signature.extend(&hash.as_ref()[..2]);
        signature.extend([number(r), number(s)].concat());
        signature
    }

    /// What the key says of itself.
    pub(crate) fn of_itself(&self, wish: &Wish) -> Vec<u8> {
        packet(2, &self.sign(wish, &[&self.hashed()]))
    }

    /// What the key says of a name.
    pub(crate) fn of_name(&self, wish: &Wish, name: &str) -> Vec<u8> {
        let length = u32::try_from(name.len()).unwrap().to_be_bytes();
        let hashed = [&[0xb4], &length[..], name.as_bytes()].concat();
        packet(2, &self.sign(wish, &[&self.hashed(), &hashed]))
    }

    /// What the key says of a subkey.
    pub(crate) fn of_subkey(&self, wish: &Wish, subkey: &Self) -> Vec<u8> {
        packet(2, &self.sign(wish, &[&self.hashed(), &subkey.hashed()]))
    }

    /// What binds a subkey, with what that says itself.
    pub(crate) fn bind(&self, wish: Wish, subkey: &Self) -> Vec<u8> {
        let back = Wish::new(BACK, wish.at);
        let back = subkey.sign(&back, &[&self.hashed(), &subkey.hashed()]);
        self.of_subkey(&wish.saying(32, &back), subkey)
    }

    /// A revocation of itself as they were long ago, in version 3.
    pub(crate) fn revocation_of_old(&self, at: u32) -> Vec<u8> {
        let signed = [&[KEY_REVOCATION], &at.to_be_bytes()[..]].concat();
        let hash = digest(&SHA256, &[self.hashed(), signed.clone()].concat());
        let made = self.pair.sign(hash.as_ref());
        let (r, s) = made.as_ref().split_at(32);
        let mut body = [&[3, 5], &signed[..], &self.fingerprint()[12..], &[22, 8]].concat();
        body.extend(&hash.as_ref()[..2]);
        body.extend([number(r), number(s)].concat());
        packet(2, &body)
    }

    /// A signed message.
    pub(crate) fn message(&self, at: u32, content: &[u8]) -> Vec<u8> {
        let signature = self.sign(&Wish::new(0, at), &[content]);
        let one_pass = [&[3, 0, 8, 22], &self.fingerprint()[12..], &[1]].concat();
        let literal = [&b"b\0\0\0\0\0"[..], content].concat();
        [
            packet(4, &one_pass),
            packet(11, &literal),
            packet(2, &signature),
        ]
        .concat()
    }
}

pub(crate) fn name(name: &str) -> Vec<u8> {
    packet(13, name.as_bytes())
}

fn packet(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[0xc0 | tag, 0xff], &length[..], body].concat()
}

fn sub(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 1).unwrap().to_be_bytes();
    [&[0xff], &length[..], &[kind], body].concat()
}

/// A number, without zeros before it.
fn number(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = &bytes[zeros..];
    let unused = bytes.first().map_or(0, |byte| byte.leading_zeros());
    let bits = u16::try_from(bytes.len() * 8).unwrap() - u16::try_from(unused).unwrap();
    [&bits.to_be_bytes(), bytes].concat()
}
