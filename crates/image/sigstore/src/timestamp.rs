//! Timestamps of authorities (RFC 3161) in CMS (RFC 5652), which prove that data existed at a time.

use crate::der::{self, Malformed, Reader, Value, explicit};
use crate::hash::{SHA256, SHA384, SHA512, digest};
use crate::{Authorities, Certificate, Refusal, time};

/// Maximum size of a timestamp; with its certificates it usually has a few thousand bytes.
pub(crate) const MAX_BYTES: usize = 32 << 10;
/// Maximum number of timestamps per signature.
pub(crate) const MAX_STAMPS: usize = 4;
/// Maximum number of certificates in a timestamp.
const MAX_CERTIFICATES: usize = 8;
/// Maximum number of signed attributes.
const MAX_ATTRIBUTES: usize = 16;

/// `id-signedData`
const SIGNED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 2];
/// `id-ct-TSTInfo`
const TST_INFO: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 16, 1, 4];
/// `id-contentType`
const CONTENT_TYPE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 3];
/// `id-messageDigest`
const MESSAGE_DIGEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 4];
/// `id-aa-signingCertificateV2` (RFC 5035)
const SIGNING_CERTIFICATE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 16, 2, 47];
/// SHA-2, without the last number.
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2];

/// Verifies a timestamp of `of` by one of the authorities, and returns its time.
pub(crate) fn check(stamp: &[u8], of: &[u8], authorities: &Authorities) -> Result<i64, Refusal> {
    let refuse = |reason: &str| Refusal::Stamp(reason.to_owned());
    let stamp = read(stamp).map_err(|Malformed| refuse("it is malformed"))?;
    let info = stamp
        .info
        .ok_or_else(|| refuse("the authority rejected the request for it"))?;
    if !info.imprint.is_of(of) {
        return Err(refuse("it is for another signature"));
    }
    let signed = &info.signed;
    if !signed.digest.is_of(info.bytes) {
        return Err(refuse("its content does not match the signed digest"));
    }
    let came = || info.certificates.iter().copied();
    let known = authorities.known();
    let makers = came().chain(known.iter().map(AsRef::as_ref));
    let maker = makers
        .filter(|der| signed.maker.is_of(der))
        .find_map(|der| Certificate::from_der(der).ok())
        .ok_or_else(|| refuse("the certificate that it names is missing"))?;
    let key = maker.key()?;
    if !key.has_signed_as_authority(&signed.message, signed.signature) {
        return Err(refuse("it is not signed with the key of its certificate"));
    }
    if !maker.stamps {
        return Err(refuse("its certificate must be for timestamps only"));
    }
    let at = info.at;
    if !maker.is_valid(at) {
        let (from, until, at) = (
            time::show(maker.from),
            time::show(maker.until),
            time::show(at),
        );
        let reason = format!(
            "its certificate is valid from {from} to {until}, but the timestamp is of {at}"
        );
        return Err(Refusal::Stamp(reason));
    }
    let chain: Vec<Vec<u8>> = came().map(<[u8]>::to_vec).collect();
    authorities
        .check_stamps(&maker, &chain, at)
        .map_err(|refusal| match refusal {
            Refusal::Chain(reason) => Refusal::Stamp(reason),
            other => other,
        })?;
    Ok(at)
}

/// The response of an authority.
struct Stamp<'a> {
    /// `None` if the authority refused the request.
    info: Option<Info<'a>>,
}

/// The contents, `TSTInfo`, and their signature.
struct Info<'a> {
    bytes: &'a [u8],
    imprint: Hash<'a>,
    at: i64,
    certificates: Vec<&'a [u8]>,
    signed: Signed<'a>,
}

/// The data that a signer has signed.
struct Signed<'a> {
    /// The signed bytes.
    message: Vec<u8>,
    signature: &'a [u8],
    /// The digest of the contents.
    digest: Hash<'a>,
    /// The digest of the signer's certificate.
    maker: Hash<'a>,
}

#[derive(Clone, Copy)]
struct Hash<'a> {
    /// The last number of its algorithm's identifier.
    kind: u8,
    value: &'a [u8],
}

impl Hash<'_> {
    fn is_of(&self, bytes: &[u8]) -> bool {
        match self.kind {
            1 => self.value == digest(&SHA256, bytes).as_ref(),
            2 => self.value == digest(&SHA384, bytes).as_ref(),
            3 => self.value == digest(&SHA512, bytes).as_ref(),
            _ => false,
        }
    }
}

/// Parses `TimeStampResp`.
fn read(bytes: &[u8]) -> Result<Stamp<'_>, Malformed> {
    if bytes.len() > MAX_BYTES {
        return Err(Malformed);
    }
    let mut answer = der::only(bytes, der::SEQUENCE)?.values();
    let mut status = answer.expect(der::SEQUENCE)?.values();
    // Granted, or granted with modifications.
    let is_granted = matches!(status.expect(der::INTEGER)?.content, [0 | 1]);
    if !is_granted {
        return Ok(Stamp { info: None });
    }
    let mut token = answer.expect(der::SEQUENCE)?.values();
    answer.finish()?;
    named(&mut token, SIGNED_DATA)?;
    let data = der::only(token.expect(explicit(0))?.content, der::SEQUENCE)?;
    token.finish()?;
    let info = signed_data(data)?;
    Ok(Stamp { info: Some(info) })
}

fn signed_data(data: Value<'_>) -> Result<Info<'_>, Malformed> {
    let mut data = data.values();
    data.expect(der::INTEGER)?;
    data.expect(der::SET)?;
    let mut content = data.expect(der::SEQUENCE)?.values();
    named(&mut content, TST_INFO)?;
    let bytes = der::only(content.expect(explicit(0))?.content, der::OCTETS)?.content;
    content.finish()?;
    let mut certificates = Vec::new();
    if let Some(all) = data.optional(explicit(0))? {
        let mut all = all.values();
        while !all.is_empty() {
            if certificates.len() == MAX_CERTIFICATES {
                return Err(Malformed);
            }
            certificates.push(all.expect(der::SEQUENCE)?.whole);
        }
    }
    data.optional(explicit(1))?;
    let mut signers = data.expect(der::SET)?.values();
    data.finish()?;
    let signed = signer(signers.expect(der::SEQUENCE)?)?;
    // There is only one signer.
    signers.finish()?;
    let (imprint, at) = tst_info(bytes)?;
    Ok(Info {
        bytes,
        imprint,
        at,
        certificates,
        signed,
    })
}

/// Returns the digest of the stamped data, and the time.
fn tst_info(bytes: &[u8]) -> Result<(Hash<'_>, i64), Malformed> {
    let mut info = der::only(bytes, der::SEQUENCE)?.values();
    if info.expect(der::INTEGER)?.content != [1] {
        return Err(Malformed);
    }
    info.expect(der::OID)?;
    let mut imprint = info.expect(der::SEQUENCE)?.values();
    let hash = Hash {
        kind: algorithm(imprint.expect(der::SEQUENCE)?)?,
        value: imprint.expect(der::OCTETS)?.content,
    };
    imprint.finish()?;
    info.expect(der::INTEGER)?;
    let at = time::parse_fraction(info.expect(der::GENERALIZED_TIME)?)?;
    // Accuracy and other optional fields are ignored; extensions are refused.
    while !info.is_empty() {
        if info.read()?.tag == explicit(1) {
            return Err(Malformed);
        }
    }
    Ok((hash, at))
}

fn signer(info: Value<'_>) -> Result<Signed<'_>, Malformed> {
    let mut info = info.values();
    info.expect(der::INTEGER)?;
    // The signed attributes also identify the certificate.
    info.read()?;
    let kind = algorithm(info.expect(der::SEQUENCE)?)?;
    let attributes = info.expect(explicit(0))?;
    info.expect(der::SEQUENCE)?;
    let signature = info.expect(der::OCTETS)?.content;
    info.optional(explicit(1))?;
    info.finish()?;
    let (mut content, mut digest, mut maker) = (None, None, None);
    let mut all = attributes.values();
    let mut count = 0;
    while !all.is_empty() {
        count += 1;
        if count > MAX_ATTRIBUTES {
            return Err(Malformed);
        }
        let mut attribute = all.expect(der::SEQUENCE)?.values();
        let id = attribute.expect(der::OID)?.content;
        let value = attribute.expect(der::SET)?.content;
        attribute.finish()?;
        if id == CONTENT_TYPE {
            once(&mut content, der::only(value, der::OID)?.content)?;
        } else if id == MESSAGE_DIGEST {
            let value = der::only(value, der::OCTETS)?.content;
            once(&mut digest, Hash { kind, value })?;
        } else if id == SIGNING_CERTIFICATE {
            once(&mut maker, signing_certificate(value)?)?;
        }
    }
    if content != Some(TST_INFO) {
        return Err(Malformed);
    }
    Ok(Signed {
        // The attributes are signed as a set, not in their implicitly tagged form (RFC 5652, 5.4).
        message: der::write(der::SET, attributes.content),
        signature,
        digest: digest.ok_or(Malformed)?,
        maker: maker.ok_or(Malformed)?,
    })
}

/// Returns the first entry of `SigningCertificateV2`, which is the signer's own.
fn signing_certificate(value: &[u8]) -> Result<Hash<'_>, Malformed> {
    let mut fields = der::only(value, der::SEQUENCE)?.values();
    let mut own = fields.expect(der::SEQUENCE)?.values();
    let mut first = own.expect(der::SEQUENCE)?.values();
    let kind = match first.optional(der::SEQUENCE)? {
        Some(named) => algorithm(named)?,
        None => 1,
    };
    let value = first.expect(der::OCTETS)?.content;
    Ok(Hash { kind, value })
}

/// Returns the last number of a SHA-2 algorithm identifier.
fn algorithm(value: Value<'_>) -> Result<u8, Malformed> {
    let id = value.values().expect(der::OID)?.content;
    match id.strip_prefix(SHA2) {
        Some([kind @ 1..=3]) => Ok(*kind),
        _ => Err(Malformed),
    }
}

fn named(reader: &mut Reader<'_>, wanted: &[u8]) -> Result<(), Malformed> {
    let is_it = reader.expect(der::OID)?.content == wanted;
    is_it.then_some(()).ok_or(Malformed)
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<(), Malformed> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Malformed),
    }
}
