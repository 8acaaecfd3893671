//! Signed certificate timestamps: promises of certificate logs to include a certificate (RFC 6962, 3.2 and 3.3).

use crate::key::PublicKey;
use crate::{Certificate, Refusal};

/// Maximum number of promises in a certificate.
const MAX_PROMISES: usize = 16;

/// Version 1, the only supported one.
const V1: u8 = 0;
/// The type of the signed data: a certificate timestamp.
const CERTIFICATE_TIMESTAMP: u8 = 0;
/// The entry type: a certificate before the promises were added.
const PRECERTIFICATE: u16 = 1;

/// Verifies that one of the logs has promised to include the certificate. `issuer` is the digest of the issuer's key.
pub(crate) fn check(
    certificate: &Certificate,
    issuer: &[u8; 32],
    logs: &[PublicKey],
) -> Result<(), Refusal> {
    let refuse = |reason: &str| Refusal::Sct(reason.to_owned());
    let list = certificate.scts.as_deref();
    let list = list.ok_or_else(|| refuse("it has no signed certificate timestamp"))?;
    let promises =
        parse(list).ok_or_else(|| refuse("its signed certificate timestamps are malformed"))?;
    let signed = certificate.before_logs();
    let signed = signed.ok_or_else(|| {
        refuse("its signed certificate timestamps cannot be separated from the certificate")
    })?;
    let mut reason = "its signed certificate timestamps are from other logs";
    for promise in &promises {
        for log in logs.iter().filter(|log| log.id() == promise.log) {
            let message = promise.message(issuer, &signed);
            if message.is_some_and(|message| log.has_signed(&message, promise.signature)) {
                return Ok(());
            }
            reason = "its signed certificate timestamp is wrong";
        }
    }
    Err(refuse(reason))
}

struct Promise<'a> {
    log: [u8; 32],
    /// The encoded time.
    moment: &'a [u8],
    /// The encoded extensions.
    extensions: &'a [u8],
    signature: &'a [u8],
}

impl Promise<'_> {
    /// Returns the bytes that the log has signed.
    fn message(&self, issuer: &[u8; 32], certificate: &[u8]) -> Option<Vec<u8>> {
        let length = u32::try_from(certificate.len()).ok()?.to_be_bytes();
        if length[0] != 0 {
            return None;
        }
        let mut message = vec![V1, CERTIFICATE_TIMESTAMP];
        message.extend_from_slice(self.moment);
        message.extend_from_slice(&PRECERTIFICATE.to_be_bytes());
        message.extend_from_slice(issuer);
        message.extend_from_slice(&length[1..]);
        message.extend_from_slice(certificate);
        message.extend_from_slice(&(self.extensions.len() as u16).to_be_bytes());
        message.extend_from_slice(self.extensions);
        Some(message)
    }
}

/// Parses the promises with a supported version.
fn parse(mut list: &[u8]) -> Option<Vec<Promise<'_>>> {
    let mut all = counted(&mut list)?;
    let mut found = Vec::new();
    while !all.is_empty() {
        if found.len() == MAX_PROMISES {
            return None;
        }
        let mut one = counted(&mut all)?;
        if take(&mut one, 1)? != [V1] {
            continue;
        }
        found.push(Promise {
            log: take(&mut one, 32)?.try_into().ok()?,
            moment: take(&mut one, 8)?,
            extensions: counted(&mut one)?,
            signature: {
                // The hash and signature algorithms, which the key determines.
                take(&mut one, 2)?;
                counted(&mut one)?
            },
        });
        if !one.is_empty() {
            return None;
        }
    }
    list.is_empty().then_some(found)
}

/// Returns the bytes after their 2-byte length.
fn counted<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let count = take(bytes, 2)?;
    take(bytes, usize::from(count[0]) << 8 | usize::from(count[1]))
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}
