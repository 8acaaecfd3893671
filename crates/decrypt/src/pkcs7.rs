//! A key that is wrapped as PKCS#7 (CMS, RFC 5652): enveloped data, the key by RSA, the content by AES.

use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

use crate::der::{INTEGER, OBJECT, OCTETS, SEQUENCE, SET, Values};
use crate::key::Padding;
use crate::wrapped::Budget;
use crate::{PrivateKey, Refused};

const MALFORMED: Refused = Refused::Malformed("PKCS#7");
const MOST_RECIPIENTS: usize = 64;

/// 1.2.840.113549.1.7.3
const ENVELOPED: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x03];
/// 1.2.840.113549.1.1.1
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// 2.16.840.1.101.3.4.1.6 and .46
const AES128_GCM: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x06];
const AES256_GCM: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x2e];
/// Context-specific tags: constructed 0, primitive 0 and 4.
const EXPLICIT: u8 = 0xa0;
const IMPLICIT: u8 = 0x80;
const NONCE: u8 = 0x84;
/// In which the library that skopeo has puts the sequence of the cipher's parameters.
const WRAPPER: u8 = 0x10;

struct Enveloped<'a> {
    /// The key, wrapped for each.
    wrapped: Vec<&'a [u8]>,
    algorithm: &'static Algorithm,
    nonce: &'a [u8],
    content: &'a [u8],
}

/// What is wrapped, if one of the keys opens it.
pub(crate) fn open(
    bytes: &[u8],
    keys: &[&PrivateKey],
    budget: &mut Budget,
) -> Result<Option<Zeroizing<Vec<u8>>>, Refused> {
    let enveloped = parse(bytes)?;
    for wrapped in &enveloped.wrapped {
        for key in keys {
            budget.spend()?;
            let Some(content_key) = key.unwrap_rsa(Padding::Pkcs1, wrapped) else {
                continue;
            };
            // Another's key may seem to fit: then the content does not.
            if let Some(opened) = decrypt(&enveloped, &content_key) {
                return Ok(Some(opened));
            }
        }
    }
    Ok(None)
}

fn parse(bytes: &[u8]) -> Result<Enveloped<'_>, Refused> {
    let mut top = Values(bytes);
    let mut info = Values(top.expect(SEQUENCE).ok_or(MALFORMED)?);
    if info.expect(OBJECT) != Some(ENVELOPED) {
        return Err(Refused::Unsupported(
            "PKCS#7 that is not enveloped data".to_owned(),
        ));
    }
    let mut explicit = Values(info.expect(EXPLICIT).ok_or(MALFORMED)?);
    let mut data = Values(explicit.expect(SEQUENCE).ok_or(MALFORMED)?);
    data.expect(INTEGER).ok_or(MALFORMED)?;
    let mut recipients = Values(data.expect(SET).ok_or(MALFORMED)?);
    let mut wrapped = Vec::new();
    while !recipients.is_empty() {
        if wrapped.len() == MOST_RECIPIENTS {
            return Err(Refused::TooMany);
        }
        let mut recipient = Values(recipients.expect(SEQUENCE).ok_or(MALFORMED)?);
        recipient.expect(INTEGER).ok_or(MALFORMED)?;
        // By the name of the issuer and a number, or by the key's identifier.
        recipient.next().ok_or(MALFORMED)?;
        let mut algorithm = Values(recipient.expect(SEQUENCE).ok_or(MALFORMED)?);
        if algorithm.expect(OBJECT) != Some(RSA) {
            return Err(Refused::Unsupported(
                "PKCS#7 with a key other than RSA".to_owned(),
            ));
        }
        wrapped.push(recipient.expect(OCTETS).ok_or(MALFORMED)?);
    }
    let mut content = Values(data.expect(SEQUENCE).ok_or(MALFORMED)?);
    content.expect(OBJECT).ok_or(MALFORMED)?;
    let mut algorithm = Values(content.expect(SEQUENCE).ok_or(MALFORMED)?);
    let name = algorithm.expect(OBJECT).ok_or(MALFORMED)?;
    let (algorithm, nonce) = match name {
        AES128_GCM | AES256_GCM => {
            let mut parameters = parameters(algorithm).ok_or(MALFORMED)?;
            let nonce = parameters
                .next()
                .filter(|it| [OCTETS, NONCE].contains(&it.tag));
            let kind = if name == AES128_GCM {
                &AES_128_GCM
            } else {
                &AES_256_GCM
            };
            (kind, nonce.ok_or(MALFORMED)?.bytes)
        }
        _ => {
            return Err(Refused::Unsupported(
                "PKCS#7 with a cipher other than AES-GCM".to_owned(),
            ));
        }
    };
    let content = content.next().ok_or(MALFORMED)?;
    let content = match content.tag {
        IMPLICIT => content.bytes,
        // As octets within.
        EXPLICIT => Values(content.bytes).expect(OCTETS).ok_or(MALFORMED)?,
        _ => return Err(MALFORMED),
    };
    Ok(Enveloped {
        wrapped,
        algorithm,
        nonce,
        content,
    })
}

fn parameters(mut algorithm: Values<'_>) -> Option<Values<'_>> {
    let value = algorithm.next()?;
    match value.tag {
        SEQUENCE => Some(Values(value.bytes)),
        WRAPPER => Values(value.bytes).expect(SEQUENCE).map(Values),
        _ => None,
    }
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
