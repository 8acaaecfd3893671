//! Certificates: the fields that identify the signer, which chain verification does not need.

use std::ops::Range;

use crate::der::{self, Malformed, Reader, Value, explicit, implicit};
use crate::key::PublicKey;
use crate::{Refusal, time};

/// Maximum size of a certificate.
const MAX_BYTES: usize = 16 << 10;
/// Maximum number of names.
const MAX_NAMES: usize = 64;
/// Maximum length of a name.
const MAX_NAME: usize = 2048;

/// `id-ce-subjectAltName`
const NAMES: &[u8] = &[0x55, 0x1d, 0x11];
/// `id-ce-keyUsage`
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
/// `keyCertSign`, in the first byte of the key usage.
const SIGNS_CERTIFICATES: u8 = 0x04;
/// `id-ce-basicConstraints`
const CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
/// `id-ce-extKeyUsage`
const USAGES: &[u8] = &[0x55, 0x1d, 0x25];
/// `id-kp-codeSigning`
pub(crate) const CODE_SIGNING: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 3];
/// `id-kp-timeStamping`
pub(crate) const TIME_STAMPING: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 8];
/// Signed certificate timestamps (RFC 6962, 3.3), 1.3.6.1.4.1.11129.2.4.2.
const SCTS: &[u8] = &[0x2b, 6, 1, 4, 1, 0xd6, 0x79, 2, 4, 2];
/// Fulcio's issuer, 1.3.6.1.4.1.57264.1.1: a plain string.
const ISSUER: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xbf, 0x30, 1, 1];
/// Fulcio's issuer, 1.3.6.1.4.1.57264.1.8: a DER string.
const ISSUER_V2: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xbf, 0x30, 1, 8];

/// An unverified certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    der: Vec<u8>,
    key: Range<usize>,
    pub(crate) from: i64,
    pub(crate) until: i64,
    pub(crate) emails: Vec<String>,
    pub(crate) addresses: Vec<String>,
    /// Whether it may sign other certificates (RFC 5280, 4.2.1.3 and 4.2.1.9).
    pub(crate) is_authority: bool,
    /// Whether it may sign code.
    pub(crate) signs_code: bool,
    /// Whether it is for timestamps, and for nothing else (RFC 3161, 2.3).
    pub(crate) stamps: bool,
    /// The identity provider that verified the subject.
    pub(crate) issuer: Option<String>,
    /// The promises of certificate logs (SCTs).
    pub(crate) scts: Option<Vec<u8>>,
}

impl Certificate {
    /// Parses a certificate.
    pub fn from_der(der: &[u8]) -> Result<Self, Refusal> {
        const WHAT: &str = "its certificate";
        if der.len() > MAX_BYTES {
            let reason = format!("it is larger than {MAX_BYTES} bytes");
            return Err(Refusal::malformed(WHAT, reason));
        }
        read(der).map_err(|Malformed| Refusal::malformed(WHAT, "it is not an X.509 certificate"))
    }

    /// Returns the certificate's bytes.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Returns the certificate's key.
    pub(crate) fn key(&self) -> Result<PublicKey, Refusal> {
        PublicKey::from_der(self.spki().to_vec())
            .map_err(|reason| Refusal::malformed("the key of its certificate", reason))
    }

    /// Returns the encoded key, without a check.
    pub(crate) fn spki(&self) -> &[u8] {
        &self.der[self.key.clone()]
    }

    /// Reports whether the certificate is valid at that time.
    pub(crate) fn is_valid(&self, at: i64) -> bool {
        (self.from..=self.until).contains(&at)
    }

    /// Returns the bytes that certificate logs sign: everything except their own promises (RFC 6962, 3.2).
    pub(crate) fn before_logs(&self) -> Option<Vec<u8>> {
        without_scts(&self.der).ok()
    }
}

fn read(der: &[u8]) -> Result<Certificate, Malformed> {
    let (fields, extensions) = parts(der)?;
    let mut certificate = Certificate {
        der: der.to_vec(),
        key: 0..0,
        from: 0,
        until: 0,
        emails: Vec::new(),
        addresses: Vec::new(),
        is_authority: false,
        signs_code: false,
        stamps: false,
        issuer: None,
        scts: None,
    };
    // Serial number, algorithm, issuer, validity, subject, key.
    let [_, _, _, validity, _, key] = fields;
    let mut validity = validity.values();
    certificate.from = time::parse(validity.read()?)?;
    certificate.until = time::parse(validity.read()?)?;
    // The key lies within these bytes.
    let start = key.whole.as_ptr().addr() - der.as_ptr().addr();
    certificate.key = start..start + key.whole.len();
    let mut seen: Vec<&[u8]> = Vec::new();
    let mut second_issuer = None;
    let mut may_sign_certificates = true;
    let mut rest = extensions.map_or(Reader::new(&[]), Value::values);
    while !rest.is_empty() {
        let (id, is_critical, value) = extension(rest.expect(der::SEQUENCE)?)?;
        if seen.contains(&id) || seen.len() == MAX_NAMES {
            return Err(Malformed);
        }
        seen.push(id);
        match id {
            _ if id == NAMES => names(value, &mut certificate)?,
            _ if id == CONSTRAINTS => {
                let mut constraints = der::only(value, der::SEQUENCE)?.values();
                let authority = constraints.optional(der::BOOLEAN)?;
                certificate.is_authority = authority.is_some_and(|it| it.content == [0xff]);
            }
            _ if id == KEY_USAGE => {
                // The first byte is the number of unused bits in the last byte.
                let usage = der::only(value, der::BITS)?.content.get(1);
                may_sign_certificates = usage.is_some_and(|bits| bits & SIGNS_CERTIFICATES != 0);
            }
            _ if id == USAGES => {
                let mut usages = der::only(value, der::SEQUENCE)?.values();
                let only = der::write(der::OID, TIME_STAMPING);
                certificate.stamps = is_critical && value == der::write(der::SEQUENCE, &only);
                while !usages.is_empty() {
                    certificate.signs_code |= usages.expect(der::OID)?.content == CODE_SIGNING;
                }
            }
            _ if id == SCTS => {
                certificate.scts = Some(der::only(value, der::OCTETS)?.content.to_vec());
            }
            _ if id == ISSUER => certificate.issuer = Some(name(value)?),
            _ if id == ISSUER_V2 => {
                second_issuer = Some(name(der::only(value, der::UTF8)?.content)?);
            }
            _ => {}
        }
    }
    certificate.is_authority &= may_sign_certificates;
    if let Some(issuer) = second_issuer {
        // Both extensions must agree, so that all verifiers see the same issuer.
        if certificate
            .issuer
            .as_ref()
            .is_some_and(|first| *first != issuer)
        {
            return Err(Malformed);
        }
        certificate.issuer = Some(issuer);
    }
    Ok(certificate)
}

/// Returns the six mandatory fields of a certificate, and its extensions.
fn parts(der: &[u8]) -> Result<([Value<'_>; 6], Option<Value<'_>>), Malformed> {
    let mut certificate = der::only(der, der::SEQUENCE)?.values();
    let mut fields = certificate.expect(der::SEQUENCE)?.values();
    fields.optional(explicit(0))?;
    let known = [
        fields.expect(der::INTEGER)?,
        fields.expect(der::SEQUENCE)?,
        fields.expect(der::SEQUENCE)?,
        fields.expect(der::SEQUENCE)?,
        fields.expect(der::SEQUENCE)?,
        fields.expect(der::SEQUENCE)?,
    ];
    fields.optional(implicit(1))?;
    fields.optional(implicit(2))?;
    let extensions = match fields.optional(explicit(3))? {
        Some(extensions) => Some(der::only(extensions.content, der::SEQUENCE)?),
        None => None,
    };
    fields.finish()?;
    Ok((known, extensions))
}

/// Returns the identifier of an extension, whether it is critical, and its value.
fn extension(extension: Value<'_>) -> Result<(&[u8], bool, &[u8]), Malformed> {
    let mut fields = extension.values();
    let id = fields.expect(der::OID)?.content;
    let is_critical = fields.optional(der::BOOLEAN)?;
    let is_critical = is_critical.is_some_and(|value| value.content == [0xff]);
    let value = fields.expect(der::OCTETS)?.content;
    fields.finish()?;
    Ok((id, is_critical, value))
}

fn names(value: &[u8], certificate: &mut Certificate) -> Result<(), Malformed> {
    let mut names = der::only(value, der::SEQUENCE)?.values();
    let mut count = 0;
    while !names.is_empty() {
        count += 1;
        if count > MAX_NAMES {
            return Err(Malformed);
        }
        let value = names.read()?;
        // RFC 5280, 4.2.1.6. Host names are compared during chain verification.
        if value.tag == implicit(1) {
            certificate.emails.push(name(value.content)?);
        } else if value.tag == implicit(6) {
            certificate.addresses.push(name(value.content)?);
        }
    }
    Ok(())
}

/// Parses a name that can be displayed and compared.
fn name(bytes: &[u8]) -> Result<String, Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|_| Malformed)?;
    let is_plain =
        !text.is_empty() && text.len() <= MAX_NAME && !text.chars().any(char::is_control);
    is_plain.then(|| text.to_owned()).ok_or(Malformed)
}

/// Returns the signed part of a certificate, without the promises of certificate logs.
fn without_scts(der: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut certificate = der::only(der, der::SEQUENCE)?.values();
    let mut fields = certificate.expect(der::SEQUENCE)?.values();
    let mut kept = Vec::with_capacity(der.len());
    while !fields.is_empty() {
        let field = fields.read()?;
        if field.tag != explicit(3) {
            kept.extend_from_slice(field.whole);
            continue;
        }
        let mut extensions = der::only(field.content, der::SEQUENCE)?.values();
        let mut others = Vec::with_capacity(field.content.len());
        while !extensions.is_empty() {
            let one = extensions.expect(der::SEQUENCE)?;
            if extension(one)?.0 != SCTS {
                others.extend_from_slice(one.whole);
            }
        }
        let others = der::write(der::SEQUENCE, &others);
        kept.extend_from_slice(&der::write(explicit(3), &others));
    }
    Ok(der::write(der::SEQUENCE, &kept))
}
