//! Trusted certificate authorities.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter};

use crate::algorithms::OF_AUTHORITIES;
use crate::certificate::{CODE_SIGNING, TIME_STAMPING};
use crate::hash::sha256;
use crate::{Certificate, Refusal, der, time};

/// Maximum number of authorities for one purpose.
const MAX_AUTHORITIES: usize = 64;
/// Maximum length of a chain; each further certificate multiplies the number of paths to try.
pub(crate) const MAX_CHAIN: usize = 4;

/// A set of trusted certificate authorities.
#[derive(Debug, Clone)]
pub struct Authorities {
    roots: Vec<Certificate>,
    /// Known intermediate certificates; trusted only if a root has signed them.
    intermediates: Vec<CertificateDer<'static>>,
}

impl Authorities {
    /// Parses all certificates of a PEM text. Those that may sign certificates become roots. The others, such as the
    /// certificate of a timestamp authority in its published chain, become intermediates.
    pub fn from_pem(roots: &[u8]) -> Result<Self, String> {
        let (mut found, mut others) = (Vec::new(), Vec::new());
        for root in certificates(roots, MAX_AUTHORITIES)? {
            webpki::anchor_from_trusted_cert(&root)
                .map_err(|error| format!("a certificate in it cannot be used: {error}"))?;
            let certificate = Certificate::from_der(&root).map_err(|reason| reason.to_string())?;
            if certificate.is_authority {
                found.push(certificate);
            } else {
                others.push(root);
            }
        }
        if found.is_empty() {
            return Err(
                "none of its certificates may sign other certificates: an authority needs CA:TRUE \
                 in its basic constraints, and keyCertSign if it has a key usage"
                    .to_owned(),
            );
        }
        Ok(Self {
            roots: found,
            intermediates: others,
        })
    }

    /// Adds the certificates of a PEM text as intermediates.
    pub fn with_intermediates(mut self, pem: &[u8]) -> Result<Self, String> {
        self.intermediates
            .extend(certificates(pem, MAX_AUTHORITIES)?);
        Ok(self)
    }

    /// Verifies that one of the authorities issued a code signing certificate that is valid at that time. `chain` has
    /// the certificates that came with it. Returns the digest of the issuer's key.
    pub(crate) fn check(
        &self,
        leaf: &Certificate,
        chain: &[Vec<u8>],
        at: i64,
    ) -> Result<[u8; 32], Refusal> {
        self.check_for(&SIGNS_CODE, leaf, chain, at)
    }

    /// Verifies the certificate of a timestamp authority in the same way.
    pub(crate) fn check_stamps(
        &self,
        leaf: &Certificate,
        chain: &[Vec<u8>],
        at: i64,
    ) -> Result<(), Refusal> {
        self.check_for(&MAKES_STAMPS, leaf, chain, at).map(drop)
    }

    /// Returns all known certificates.
    pub(crate) fn known(&self) -> Vec<CertificateDer<'_>> {
        let roots = self
            .roots
            .iter()
            .map(|root| CertificateDer::from(root.der()));
        let others = self.intermediates.iter();
        let others = others.map(|known| CertificateDer::from(known.as_ref()));
        roots.chain(others).collect()
    }

    fn check_for(
        &self,
        purpose: &Purpose,
        leaf: &Certificate,
        chain: &[Vec<u8>],
        at: i64,
    ) -> Result<[u8; 32], Refusal> {
        let refuse = |reason: String| Refusal::Chain(reason);
        let seconds = u64::try_from(at).map_err(|_| refuse("its time is before 1970".into()))?;
        let moment = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        let roots: Vec<CertificateDer<'_>> = self
            .roots
            .iter()
            .filter(|root| root.is_valid(at))
            .map(|root| CertificateDer::from(root.der()))
            .collect();
        if roots.is_empty() {
            let reason = format!("none of the authorities was valid at {}", time::show(at));
            return Err(refuse(reason));
        }
        let anchors: Vec<TrustAnchor<'_>> = roots
            .iter()
            .filter_map(|root| webpki::anchor_from_trusted_cert(root).ok())
            .collect();
        let intermediates: Vec<CertificateDer<'_>> = self
            .intermediates
            .iter()
            .map(|known| CertificateDer::from(known.as_ref()))
            .chain(chain.iter().map(|came| CertificateDer::from(&came[..])))
            .collect();
        let der = CertificateDer::from(leaf.der());
        let entity =
            EndEntityCert::try_from(&der).map_err(|error| refuse(shown(&error, purpose)))?;
        let path = entity
            .verify_for_usage(
                &OF_AUTHORITIES,
                &anchors,
                &intermediates,
                moment,
                purpose,
                None,
                None,
            )
            .map_err(|error| refuse(shown(&error, purpose)))?;
        let issuer = path.intermediate_certificates().next();
        let spki = match issuer {
            Some(issuer) => issuer.subject_public_key_info().to_vec(),
            None => der::write(der::SEQUENCE, &path.anchor().subject_public_key_info),
        };
        Ok(sha256(&[&spki]))
    }
}

/// Parses all certificates of a PEM text; fails if there are none or too many.
pub(crate) fn certificates(
    pem: &[u8],
    most: usize,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut found = Vec::new();
    for one in CertificateDer::pem_slice_iter(pem) {
        if found.len() == most {
            return Err(format!("it has more than {most} certificates"));
        }
        found.push(one.map_err(|error| format!("it is not PEM: {error}"))?);
    }
    if found.is_empty() {
        return Err("it has no \"CERTIFICATE\" block".to_owned());
    }
    Ok(found)
}

/// Describes the most common errors.
fn shown(error: &webpki::Error, purpose: &Purpose) -> String {
    match error {
        webpki::Error::UnknownIssuer => {
            "it is not issued by one of the authorities that the policy names".to_owned()
        }
        webpki::Error::CertExpired { .. } | webpki::Error::CertNotValidYet { .. } => {
            "an intermediate certificate was not valid at that time".to_owned()
        }
        webpki::Error::RequiredEkuNotFoundContext(_) => format!("it is not for {}", purpose.name),
        webpki::Error::InvalidSignatureForPublicKey => "its issuer's signature is wrong".to_owned(),
        other => format!("{other:?}"),
    }
}

/// A required certificate usage; certificates that list their usages must include it.
struct Purpose {
    usage: &'static [u8],
    name: &'static str,
}

const SIGNS_CODE: Purpose = Purpose {
    usage: CODE_SIGNING,
    name: "code signing",
};

const MAKES_STAMPS: Purpose = Purpose {
    usage: TIME_STAMPING,
    name: "timestamps",
};

impl ExtendedKeyUsageValidator for &Purpose {
    fn validate(&self, usages: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let wanted = KeyPurposeId::new(self.usage);
        let mut says_nothing = true;
        let mut found = false;
        for usage in usages {
            says_nothing = false;
            found |= usage? == wanted;
        }
        if says_nothing || found {
            return Ok(());
        }
        Err(webpki::Error::RequiredEkuNotFoundContext(
            webpki::RequiredEkuNotFoundContext {
                required: webpki::KeyUsage::required(self.usage),
                present: Vec::new(),
            },
        ))
    }
}
