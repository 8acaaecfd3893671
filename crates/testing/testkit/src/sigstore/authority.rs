//! A certificate authority for code signing, like Fulcio.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose, SanType, SerialNumber, date_time_ymd,
};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest as _, Sha256};

use super::Key;
use super::bundle::Person;

/// A certificate authority for code signing.
#[derive(Debug)]
pub struct CodeAuthority {
    key: Key,
    params: CertificateParams,
    der: Vec<u8>,
    /// Its own certificate and those above it, up to the root's.
    above: Vec<Vec<u8>>,
}

/// Content of a certificate.
#[derive(Debug, Clone)]
pub struct Wish<'a> {
    /// E-mail addresses.
    pub emails: Vec<&'a str>,
    /// URIs.
    pub addresses: Vec<&'a str>,
    /// Host names.
    pub hosts: Vec<&'a str>,
    /// Login issuers in Fulcio's old and new extension.
    pub issuers: [Option<&'a str>; 2],
    /// Start and end of its validity, in seconds since 1970.
    pub valid: (u64, u64),
    /// Whether it is valid for code signing.
    pub signs_code: bool,
    /// Whether it is valid for servers.
    pub serves: bool,
    /// Certificate log that issues a signed certificate timestamp.
    pub log: Option<&'a Key>,
}

impl Default for Wish<'_> {
    fn default() -> Self {
        Self {
            emails: Vec::new(),
            addresses: Vec::new(),
            hosts: Vec::new(),
            issuers: [None; 2],
            valid: (0, 4_000_000_000),
            signs_code: true,
            serves: false,
            log: None,
        }
    }
}

impl CodeAuthority {
    /// Creates a self-signed authority that is valid for a hundred years.
    pub fn new(name: &str) -> Self {
        Self::valid(name, (0, 4_000_000_000))
    }

    /// Creates a self-signed authority with a validity in seconds since 1970.
    pub fn valid(name: &str, valid: (u64, u64)) -> Self {
        let (key, params) = (Key::new(), of_authority(name, valid));
        let made = params.self_signed(&key.pair).expect("certify oneself");
        Self {
            der: made.der().to_vec(),
            above: vec![made.der().to_vec()],
            key,
            params,
        }
    }

    /// Creates an intermediate authority below this one.
    pub fn below(&self, name: &str) -> Self {
        let (key, params) = (Key::new(), of_authority(name, (0, 4_000_000_000)));
        let made = params.signed_by(&key.pair, &self.issuer());
        let der = made.expect("certify an authority").der().to_vec();
        let mut above = vec![der.clone()];
        above.extend(self.above.iter().cloned());
        Self {
            key,
            params,
            der,
            above,
        }
    }

    /// Returns its own certificate in PEM.
    pub fn pem(&self) -> String {
        pem(&self.der)
    }

    /// Issues a certificate for a new key.
    pub fn certify(&self, wish: &Wish<'_>) -> Person {
        let key = Key::new();
        let certificates = self.certify_key(wish, &key.pair);
        Person { key, certificates }
    }

    /// Issues a certificate for another party's public key on P-256. Returns it and those above in PEM.
    pub fn certify_pem(&self, wish: &Wish<'_>, key: &str) -> Option<Vec<String>> {
        let chain = self.certify_key(wish, &Asked::read(key)?);
        Some(chain.iter().map(|one| pem(one)).collect())
    }

    /// Issues a certificate for a key. Returns it and those above.
    fn certify_key(&self, wish: &Wish<'_>, key: &impl rcgen::PublicKeyData) -> Vec<Vec<u8>> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        // The precertificate and the certificate have the same number.
        params.serial_number = Some(SerialNumber::from(7));
        set(&mut params, wish.valid);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if wish.signs_code {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        }
        if wish.serves {
            let usages = &mut params.extended_key_usages;
            usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        let text = |text: &&str| (*text).try_into().expect("plain text");
        let names = &mut params.subject_alt_names;
        names.extend(wish.emails.iter().map(|it| SanType::Rfc822Name(text(it))));
        names.extend(wish.addresses.iter().map(|it| SanType::URI(text(it))));
        names.extend(wish.hosts.iter().map(|it| SanType::DnsName(text(it))));
        let [old, new] = wish.issuers;
        let number = |last| [1, 3, 6, 1, 4, 1, 57264, 1, last];
        if let Some(issuer) = old {
            let content = issuer.as_bytes().to_vec();
            let extension = CustomExtension::from_oid_content(&number(1), content);
            params.custom_extensions.push(extension);
        }
        if let Some(issuer) = new {
            let content = der(0x0c, issuer.as_bytes());
            let extension = CustomExtension::from_oid_content(&number(8), content);
            params.custom_extensions.push(extension);
        }
        let make = |params: &CertificateParams| {
            let made = params.signed_by(key, &self.issuer());
            made.expect("certify").der().to_vec()
        };
        if let Some(log) = wish.log {
            let promise = self.promise(log, signed_part(&make(&params)));
            let content = der(0x04, &promise);
            let number = [1, 3, 6, 1, 4, 1, 11129, 2, 4, 2];
            let extension = CustomExtension::from_oid_content(&number, content);
            params.custom_extensions.push(extension);
        }
        let mut certificates = vec![make(&params)];
        certificates.extend(self.above.iter().cloned());
        certificates
    }

    pub(super) fn issuer(&self) -> Issuer<'_, &rcgen::KeyPair> {
        Issuer::from_params(&self.params, &self.key.pair)
    }

    /// Returns a list with one signed certificate timestamp (RFC 6962, 3.2 and 3.3).
    fn promise(&self, log: &Key, certificate: &[u8]) -> Vec<u8> {
        let moment = 1_700_000_000_000_u64.to_be_bytes();
        let mut signed = vec![0, 0];
        signed.extend_from_slice(&moment);
        signed.extend_from_slice(&[0, 1]);
        signed.extend_from_slice(&Sha256::digest(self.key.der()));
        signed.extend_from_slice(&(certificate.len() as u32).to_be_bytes()[1..]);
        signed.extend_from_slice(certificate);
        signed.extend_from_slice(&[0, 0]);
        let mut one = vec![0];
        one.extend_from_slice(&Sha256::digest(log.der()));
        one.extend_from_slice(&moment);
        // No extensions; ECDSA with SHA-256.
        one.extend_from_slice(&[0, 0, 4, 3]);
        one.extend_from_slice(&counted(&log.sign(&signed)));
        counted(&counted(&one))
    }
}

/// A public key on P-256 whose private key is not known here.
struct Asked(Vec<u8>);

impl Asked {
    fn read(pem: &str) -> Option<Self> {
        let spki = SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes()).ok()?;
        // An uncompressed point.
        let point = spki.get(spki.len().checked_sub(65)?..)?;
        (point[0] == 4).then(|| Self(point.to_vec()))
    }
}

impl rcgen::PublicKeyData for Asked {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

fn of_authority(name: &str, valid: (u64, u64)) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set(&mut params, valid);
    params
}

pub(super) fn set(params: &mut CertificateParams, valid: (u64, u64)) {
    let start = date_time_ymd(1970, 1, 1);
    params.not_before = start + Duration::from_secs(valid.0);
    params.not_after = start + Duration::from_secs(valid.1);
}

/// Returns the signed part of a certificate.
fn signed_part(certificate: &[u8]) -> &[u8] {
    let (start, _) = header(certificate);
    let inner = &certificate[start..];
    let (header, length) = header(inner);
    &inner[..header + length]
}

/// Returns the lengths of a value's header and content.
pub(super) fn header(value: &[u8]) -> (usize, usize) {
    let first = usize::from(value[1]);
    if first < 0x80 {
        return (2, first);
    }
    let count = first - 0x80;
    let length = value[2..2 + count]
        .iter()
        .fold(0, |all, byte| all << 8 | usize::from(*byte));
    (2 + count, length)
}

/// Encodes a short value in DER.
pub(super) fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut value = vec![tag];
    match content.len() {
        short @ ..0x80 => value.push(short as u8),
        long => {
            value.push(0x82);
            value.extend_from_slice(&(long as u16).to_be_bytes());
            if long < 0x100 {
                value.truncate(1);
                value.extend_from_slice(&[0x81, long as u8]);
            }
        }
    }
    value.extend_from_slice(content);
    value
}

fn counted(bytes: &[u8]) -> Vec<u8> {
    let mut all = (bytes.len() as u16).to_be_bytes().to_vec();
    all.extend_from_slice(bytes);
    all
}

/// Encodes a certificate in PEM.
pub(super) fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::prelude::BASE64_STANDARD.encode(der);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).expect("base64 is text"))
        .collect();
    let body = lines.join("\n");
    format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
}
