//! A timestamp authority (RFC 3161).

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, KeyUsagePurpose};
use sha2::{Digest as _, Sha256};

use super::Key;
use super::authority::{CodeAuthority, der, header, set};

const SHA256: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1];
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const TST_INFO: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 16, 1, 4];
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// A timestamp authority.
#[derive(Debug)]
pub struct StampAuthority {
    /// Issuer of its certificate.
    pub root: CodeAuthority,
    key: Key,
    own: Vec<u8>,
}

/// Content of the authority's certificate.
#[derive(Debug, Clone)]
pub struct StamperWish {
    /// Start and end of its validity, in seconds since 1970.
    pub valid: (u64, u64),
    /// Whether the extended key usage is critical.
    pub is_critical: bool,
    /// Last numbers of the extended key usages; 8 means timestamps.
    pub usages: Vec<u8>,
}

impl Default for StamperWish {
    fn default() -> Self {
        Self {
            valid: (0, 4_000_000_000),
            is_critical: true,
            usages: vec![8],
        }
    }
}

/// Content of a timestamp.
#[derive(Debug, Clone)]
pub struct StampWish<'a> {
    /// The stamped message.
    pub message: &'a [u8],
    /// Time in seconds since 1970; `fraction` follows it in the text.
    pub at: u64,
    /// Fraction of a second, such as `.25`.
    pub fraction: &'a str,
    /// Status of the response; 0 means granted.
    pub status: u8,
    /// Signed digest, if it differs from the correct one.
    pub digest: Option<&'a [u8]>,
    /// Signer certificate identifier, if it differs from the authority's own.
    pub maker: Option<&'a [u8]>,
    /// Embedded certificates.
    pub certificates: Vec<&'a [u8]>,
    /// Additional fields at the end.
    pub more: &'a [u8],
}

impl StampAuthority {
    /// Creates an authority below a new root.
    pub fn new() -> Self {
        Self::with(&StamperWish::default())
    }

    /// Creates an authority with this certificate.
    pub fn with(wish: &StamperWish) -> Self {
        let (root, key) = (CodeAuthority::new("stamps"), Key::new());
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "stamper");
        set(&mut params, wish.valid);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let usages = wish.usages.iter();
        let usages: Vec<u8> = usages
            .flat_map(|last| der(0x06, &[0x2b, 6, 1, 5, 5, 7, 3, *last]))
            .collect();
        let content = der(SEQUENCE, &usages);
        let mut extension = CustomExtension::from_oid_content(&[2, 5, 29, 37], content);
        extension.set_criticality(wish.is_critical);
        params.custom_extensions.push(extension);
        let own = params.signed_by(&key.pair, &root.issuer());
        let own = own.expect("certify").der().to_vec();
        Self { root, key, own }
    }

    /// Returns its own certificate.
    pub fn own(&self) -> &[u8] {
        &self.own
    }

    /// Issues a timestamp for a time in seconds since 1970.
    pub fn stamp(&self, message: &[u8], at: u64) -> Vec<u8> {
        self.make(&self.wish(message, at))
    }

    /// Returns the content of a valid timestamp.
    pub fn wish<'a>(&'a self, message: &'a [u8], at: u64) -> StampWish<'a> {
        StampWish {
            message,
            at,
            fraction: "",
            status: 0,
            digest: None,
            maker: None,
            certificates: vec![&self.own],
            more: &[],
        }
    }

    /// Encodes a timestamp.
    pub fn make(&self, wish: &StampWish<'_>) -> Vec<u8> {
        self.answer(wish, &Sha256::digest(wish.message), &[])
    }

    /// Responds to a timestamp request with this time.
    pub fn reply(&self, query: &[u8], at: u64) -> Option<Vec<u8>> {
        let (start, _) = header(query);
        let mut rest = query.get(start..)?;
        let mut fields = Vec::new();
        while rest.len() > 1 {
            let (start, length) = header(rest);
            fields.push((rest[0], rest.get(..start + length)?));
            rest = &rest[start + length..];
        }
        let (_, imprint) = fields.iter().find(|(tag, _)| *tag == SEQUENCE)?;
        // It ends with the hash.
        let hash = imprint.get(imprint.len().checked_sub(32)?..)?;
        // The first number is a version.
        let numbers = fields.iter().filter(|(tag, _)| *tag == 0x02);
        let nonce = numbers.map(|(_, whole)| *whole).nth(1).unwrap_or_default();
        let wish = self.wish(&[], at);
        Some(self.answer(&wish, hash, nonce))
    }

    fn answer(&self, wish: &StampWish<'_>, hash: &[u8], nonce: &[u8]) -> Vec<u8> {
        let status = der(SEQUENCE, &der(0x02, &[wish.status]));
        if wish.status > 1 {
            return der(SEQUENCE, &status);
        }
        let algorithm = der(SEQUENCE, &der(0x06, SHA256));
        let moment = format!("{}{}Z", digits(wish.at), wish.fraction);
        let info = [
            der(0x02, &[1]),
            der(0x06, &[0x2a, 3, 4]),
            der(SEQUENCE, &[&algorithm[..], &der(0x04, hash)].concat()),
            der(0x02, &[7]),
            der(0x18, moment.as_bytes()),
            nonce.to_vec(),
            wish.more.to_vec(),
        ];
        let info = der(SEQUENCE, &info.concat());
        let digest = Sha256::digest(wish.digest.unwrap_or(&info));
        let maker = Sha256::digest(wish.maker.unwrap_or(&self.own));
        let maker = der(SEQUENCE, &der(SEQUENCE, &der(SEQUENCE, &der(0x04, &maker))));
        let pkcs9 = |rest: &[u8]| [&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9], rest].concat();
        let attribute = |id: &[u8], value: &[u8]| {
            der(SEQUENCE, &[der(0x06, &pkcs9(id)), der(SET, value)].concat())
        };
        let attributes = [
            attribute(&[3], &der(0x06, TST_INFO)),
            attribute(&[4], &der(0x04, &digest)),
            attribute(&[16, 2, 47], &maker),
        ];
        let attributes = attributes.concat();
        let signature = self.key.sign(&der(SET, &attributes));
        let signer = [
            der(0x02, &[1]),
            self.name(),
            algorithm.clone(),
            der(0xa0, &attributes),
            der(SEQUENCE, &der(0x06, ECDSA)),
            der(0x04, &signature),
        ];
        let content = [der(0x06, TST_INFO), der(0xa0, &der(0x04, &info))].concat();
        let data = [
            der(0x02, &[3]),
            der(SET, &algorithm),
            der(SEQUENCE, &content),
            der(0xa0, &wish.certificates.concat()),
            der(SET, &der(SEQUENCE, &signer.concat())),
        ];
        let data = der(0xa0, &der(SEQUENCE, &data.concat()));
        let token = [
            der(0x06, &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 2]),
            data,
        ];
        let token = der(SEQUENCE, &token.concat());
        der(SEQUENCE, &[status, token].concat())
    }

    /// Identifies its certificate by issuer and serial number.
    fn name(&self) -> Vec<u8> {
        let inside = &self.own[header(&self.own).0..];
        let mut rest = &inside[header(inside).0..];
        let mut take = || {
            let (start, length) = header(rest);
            let (one, after) = rest.split_at(start + length);
            rest = after;
            one
        };
        let (_version, number, _algorithm, issuer) = (take(), take(), take(), take());
        der(SEQUENCE, &[issuer, number].concat())
    }
}

impl Default for StampAuthority {
    fn default() -> Self {
        Self::new()
    }
}

/// Formats a time for ASN.1: year, month, day, hour, minute, second.
fn digits(at: u64) -> String {
    let seconds = i64::try_from(at).expect("a moment");
    let moment = jiff::Timestamp::from_second(seconds).expect("a moment");
    moment.strftime("%Y%m%d%H%M%S").to_string()
}
