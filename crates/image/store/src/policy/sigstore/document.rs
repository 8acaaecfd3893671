//! Parses a `sigstoreSigned` requirement.

use orlop_sigstore::{Authorities, Pattern, Subject};

use super::sources::{IdentitySource, PemSource, SignerSource};
use crate::policy::identity::SignedIdentity;
use crate::policy::json::{At, Fields, Wrong};
use crate::policy::key::{KeySource, key_data, key_file, several};

/// Maximum number of predicate types.
const MAX_TYPES: usize = 16;
/// Maximum length of a type, issuer or name.
const MAX_TEXT: usize = 1024;

/// A requirement for the signer, the transparency log and the name of a signature.
#[derive(Debug)]
pub(crate) struct SigstoreSigned {
    pub(super) signer: SignerSource,
    /// Keys of the accepted transparency logs; `None` if no log is required.
    pub(super) logs: Option<Vec<KeySource>>,
    /// Certificates of timestamp authorities, which can prove the signing time instead of a log.
    pub(super) stampers: Option<PemSource>,
    pub(super) identity: SignedIdentity,
    /// The accepted types of attestations; empty if a signature is required.
    pub(super) predicate_types: Vec<String>,
}

impl SigstoreSigned {
    /// Returns whether it requires an attestation instead of a signature.
    pub(crate) fn is_of_attestations(&self) -> bool {
        !self.predicate_types.is_empty()
    }

    /// Parses the fields of the requirement.
    pub(crate) fn parse(fields: &mut Fields) -> Result<Self, Wrong> {
        let keys = keys(fields, ["keyPath", "keyPaths", "keyData", "keyDatas"])?;
        let logs = [
            "rekorPublicKeyPath",
            "rekorPublicKeyPaths",
            "rekorPublicKeyData",
            "rekorPublicKeyDatas",
        ];
        let logs = self::keys(fields, logs)?;
        let stampers = pem(fields, ["tsaCAPath", "tsaCAData"])?;
        let place = fields.place.clone();
        let signer = match (keys, fields.take("fulcio"), fields.take("pki")) {
            (_, None, _) if stampers.is_some() => {
                let problem = "\"tsaCA…\" can only be used together with \"fulcio\"";
                return Err(Wrong::new(&place, problem));
            }
            (Some(keys), None, None) => SignerSource::Keys(keys),
            (None, Some(fulcio), None) => {
                if logs.is_none() && stampers.is_none() {
                    let problem = "\"fulcio\" needs one of \"rekorPublicKeyPath\", \
                                   \"rekorPublicKeyPaths\", \"rekorPublicKeyData\", \
                                   \"rekorPublicKeyDatas\", \"tsaCAPath\" and \"tsaCAData\": its \
                                   certificates are valid for minutes, and only a log or a \
                                   timestamp proves when one was used";
                    return Err(Wrong::new(&place, problem));
                }
                SignerSource::Identity(fulcio_identity(fulcio)?)
            }
            (None, None, Some(pki)) => {
                if logs.is_some() {
                    let problem = "\"pki\" cannot be used together with \"rekorPublicKey…\"";
                    return Err(Wrong::new(&place, problem));
                }
                SignerSource::Identity(pki_identity(pki)?)
            }
            _ => {
                let problem = "needs exactly one of \"keyPath\", \"keyPaths\", \"keyData\", \
                               \"keyDatas\", \"fulcio\" and \"pki\"";
                return Err(Wrong::new(&place, problem));
            }
        };
        let identity = SignedIdentity::parse_or_default(fields)?;
        let predicate_types = match fields.take("predicateTypes") {
            Some(value) => {
                let place = value.place.clone();
                let types = value.some()?;
                if types.len() > MAX_TYPES {
                    let problem = format!("more than {MAX_TYPES} types");
                    return Err(Wrong::new(&place, problem));
                }
                types.into_iter().map(text).collect::<Result<_, _>>()?
            }
            None => Vec::new(),
        };
        Ok(Self {
            signer,
            logs,
            stampers,
            identity,
            predicate_types,
        })
    }
}

/// Parses `fulcio`: a signer who has logged in at an OIDC issuer.
fn fulcio_identity(value: At) -> Result<IdentitySource, Wrong> {
    let mut fields = value.fields()?;
    let place = fields.place.clone();
    let roots = pem(&mut fields, ["caPath", "caData"])?;
    let roots = roots
        .ok_or_else(|| Wrong::new(&place, "needs exactly one of \"caPath\" and \"caData\""))?;
    let issuer = text(fields.required("oidcIssuer")?)?;
    let email = fields.take("subjectEmail");
    let subject = match (email, fields.take("subjectPattern")) {
        (Some(email), None) => Subject::Email(text(email)?),
        (None, Some(pattern)) => {
            let place = pattern.place.clone();
            let pattern = Pattern::parse(&text(pattern)?);
            Subject::Pattern(pattern.map_err(|reason| Wrong::new(&place, reason))?)
        }
        _ => {
            let problem = "needs exactly one of \"subjectEmail\" and \"subjectPattern\"";
            return Err(Wrong::new(&place, problem));
        }
    };
    let logs = [
        "ctLogPublicKeyPath",
        "ctLogPublicKeyPaths",
        "ctLogPublicKeyData",
        "ctLogPublicKeyDatas",
    ];
    let certificate_logs = keys(&mut fields, logs)?.unwrap_or_default();
    fields.finish()?;
    Ok(IdentitySource {
        roots,
        intermediates: None,
        issuer: Some(issuer),
        subject: vec![subject],
        certificate_logs,
    })
}

/// Parses `pki`: a signer with a certificate of a private authority.
fn pki_identity(value: At) -> Result<IdentitySource, Wrong> {
    let mut fields = value.fields()?;
    let place = fields.place.clone();
    let roots = pem(&mut fields, ["caRootsPath", "caRootsData"])?;
    let roots = roots.ok_or_else(|| {
        let problem = "needs exactly one of \"caRootsPath\" and \"caRootsData\"";
        Wrong::new(&place, problem)
    })?;
    let intermediates = pem(&mut fields, ["caIntermediatesPath", "caIntermediatesData"])?;
    let mut subject = Vec::new();
    if let Some(email) = fields.take("subjectEmail") {
        subject.push(Subject::Email(text(email)?));
    }
    if let Some(host) = fields.take("subjectHostname") {
        let place = host.place.clone();
        subject.push(Subject::host(&text(host)?).map_err(|reason| Wrong::new(&place, reason))?);
    }
    if subject.is_empty() {
        let problem = "needs \"subjectEmail\", \"subjectHostname\" or both";
        return Err(Wrong::new(&place, problem));
    }
    fields.finish()?;
    Ok(IdentitySource {
        roots,
        intermediates,
        issuer: None,
        subject,
        certificate_logs: Vec::new(),
    })
}

/// Parses keys in one of four fields: one file, several files, one key, several keys.
fn keys(fields: &mut Fields, names: [&str; 4]) -> Result<Option<Vec<KeySource>>, Wrong> {
    let [path, paths, data, datas] = names.map(|name| fields.take(name));
    match (path, paths, data, datas) {
        (None, None, None, None) => Ok(None),
        (Some(path), None, None, None) => Ok(Some(vec![key_file(path)?])),
        (None, Some(paths), None, None) => several(paths, key_file).map(Some),
        (None, None, Some(data), None) => Ok(Some(vec![key_data(data)?])),
        (None, None, None, Some(datas)) => several(datas, key_data).map(Some),
        _ => {
            let [path, paths, data, datas] = names;
            let problem =
                format!("needs exactly one of {path:?}, {paths:?}, {data:?} and {datas:?}");
            Err(Wrong::new(&fields.place, problem))
        }
    }
}

/// Parses certificates in one of two fields: a file or a text.
fn pem(fields: &mut Fields, names: [&str; 2]) -> Result<Option<PemSource>, Wrong> {
    let [path, data] = names.map(|name| fields.take(name));
    match (path, data) {
        (None, None) => Ok(None),
        (Some(path), None) => Ok(Some(PemSource::file(path)?)),
        (None, Some(data)) => {
            let place = data.place.clone();
            let pem = PemSource::inline(data)?;
            let read = pem.load().and_then(|pem| Authorities::from_pem(&pem));
            read.map_err(|reason| Wrong::new(&place, reason))?;
            Ok(Some(pem))
        }
        _ => {
            let [path, data] = names;
            let problem = format!("needs exactly one of {path:?} and {data:?}");
            Err(Wrong::new(&fields.place, problem))
        }
    }
}

/// Parses a text that is not empty.
fn text(value: At) -> Result<String, Wrong> {
    let place = value.place.clone();
    let text = value.text()?;
    if text.is_empty() || text.len() > MAX_TEXT {
        let problem = format!("must have between 1 and {MAX_TEXT} bytes");
        return Err(Wrong::new(&place, problem));
    }
    Ok(text)
}
