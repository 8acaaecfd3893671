//! Keys wrapped as PKCS#7 (CMS, RFC 5652): enveloped data, with RSA for the key and AES for the content.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};
use orlop_der::{INTEGER, Malformed, OCTETS, OID, Reader, SEQUENCE, SET, explicit, implicit};
use zeroize::Zeroizing;

use crate::key::Padding;
use crate::{Budget, PrivateKey, Refused};

const MOST_RECIPIENTS: usize = 64;

/// 1.2.840.113549.1.7.3
const ENVELOPED: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x03];
/// 1.2.840.113549.1.1.1
pub(crate) const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// 2.16.840.1.101.3.4.1.6 and .46
const AES128_GCM: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x06];
const AES256_GCM: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x2e];
/// The tag in which skopeo's library wraps the sequence of the cipher's parameters.
const WRAPPER: u8 = 0x10;

struct Enveloped<'a> {
    /// The content key, wrapped for each recipient.
    wrapped: Vec<&'a [u8]>,
    algorithm: &'static Algorithm,
    nonce: &'a [u8],
    content: &'a [u8],
}

/// Unwraps the key, if one of the private keys fits.
pub(crate) fn open(
    bytes: &[u8],
    keys: &[&PrivateKey],
    budget: &mut Budget,
) -> Result<Option<Zeroizing<Vec<u8>>>, Refused> {
    let enveloped = parse(bytes)?;
    for wrapped in &enveloped.wrapped {
        for key in keys {
            budget.spend()?;
            if !key.is_rsa() {
                continue;
            }
            let length = enveloped.algorithm.key_len();
            let content_key = key.unwrap_rsa(Padding::Pkcs1, wrapped);
            // Wrong padding takes as long as a wrong key and has the same result, against padding oracles (RFC 3218,
            // 2.3.2).
            let content_key = content_key.filter(|key| key.len() == length);
            let content_key = content_key.or_else(|| random(length));
            if let Some(opened) = content_key.and_then(|key| decrypt(&enveloped, &key)) {
                return Ok(Some(opened));
            }
        }
    }
    Ok(None)
}

fn random(length: usize) -> Option<Zeroizing<Vec<u8>>> {
    let mut key = Zeroizing::new(vec![0; length]);
    aws_lc_rs::rand::fill(&mut key).ok()?;
    Some(key)
}

/// An error of parsing a message.
enum Unread {
    Malformed,
    Refused(Refused),
}

impl From<Malformed> for Unread {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

fn unsupported(what: &str) -> Unread {
    Unread::Refused(Refused::Unsupported(format!("PKCS#7 {what}")))
}

fn parse(bytes: &[u8]) -> Result<Enveloped<'_>, Refused> {
    read(bytes).map_err(|unread| match unread {
        Unread::Malformed => Refused::Malformed("PKCS#7"),
        Unread::Refused(refused) => refused,
    })
}

fn read(bytes: &[u8]) -> Result<Enveloped<'_>, Unread> {
    let mut info = Reader::new(bytes).expect(SEQUENCE)?.values();
    if info.expect(OID)?.content != ENVELOPED {
        return Err(unsupported("that is not enveloped data"));
    }
    let mut data = info.expect(explicit(0))?.values();
    let mut data = data.expect(SEQUENCE)?.values();
    data.expect(INTEGER)?;
    let mut recipients = data.expect(SET)?.values();
    let mut wrapped = Vec::new();
    while !recipients.is_empty() {
        if wrapped.len() == MOST_RECIPIENTS {
            return Err(Unread::Refused(Refused::TooMany));
        }
        let mut recipient = recipients.expect(SEQUENCE)?.values();
        recipient.expect(INTEGER)?;
        // The recipient: issuer and serial number, or the key's identifier.
        recipient.read()?;
        let mut algorithm = recipient.expect(SEQUENCE)?.values();
        if algorithm.expect(OID)?.content != RSA {
            return Err(unsupported("with a key other than RSA"));
        }
        wrapped.push(recipient.expect(OCTETS)?.content);
    }
    let mut content = data.expect(SEQUENCE)?.values();
    content.expect(OID)?;
    let mut cipher = content.expect(SEQUENCE)?.values();
    let algorithm = match cipher.expect(OID)?.content {
        AES128_GCM => &AES_128_GCM,
        AES256_GCM => &AES_256_GCM,
        _ => return Err(unsupported("with a cipher other than AES-GCM")),
    };
    let parameters = cipher.read()?;
    let parameters = match parameters.tag {
        SEQUENCE => parameters,
        WRAPPER => parameters.values().expect(SEQUENCE)?,
        _ => return Err(Unread::Malformed),
    };
    let nonce = parameters.values().read()?;
    if ![OCTETS, implicit(4)].contains(&nonce.tag) {
        return Err(Unread::Malformed);
    }
    let content = content.read()?;
    let content = if content.tag == implicit(0) {
        content.content
    } else if content.tag == explicit(0) {
        // The content is nested in octet strings.
        content.values().expect(OCTETS)?.content
    } else {
        return Err(Unread::Malformed);
    };
    Ok(Enveloped {
        wrapped,
        algorithm,
        nonce: nonce.content,
        content,
    })
}

fn decrypt(enveloped: &Enveloped<'_>, key: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let key = UnboundKey::new(enveloped.algorithm, key).ok()?;
    let nonce = Nonce::try_assume_unique_for_key(enveloped.nonce).ok()?;
    let mut bytes = Zeroizing::new(enveloped.content.to_vec());
    let opened = LessSafeKey::new(key).open_in_place(nonce, Aad::empty(), &mut bytes);
    let length = opened.ok()?.len();
    bytes.truncate(length);
    Some(bytes)
}
