//! Signers with a certificate.

use rustls_pki_types::{CertificateDer, ServerName};
use webpki::EndEntityCert;

use crate::key::PublicKey;
use crate::{Authorities, Certificate, Pattern, Refusal, sct, time};

/// A signer with a certificate.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The authorities that may issue the certificate.
    pub authorities: Authorities,
    /// The required identity provider. If set, the certificate must also be for code signing, as those of Fulcio are.
    pub issuer: Option<String>,
    /// The required names; all of them must match.
    pub subject: Vec<Subject>,
    /// The certificate must be in one of these certificate logs, unless the list is empty.
    pub certificate_logs: Vec<PublicKey>,
}

/// A required name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// An e-mail address.
    Email(String),
    /// A pattern for an e-mail address or URI.
    Pattern(Pattern),
    /// A host name.
    Host(String),
}

/// The time at which a certificate must be valid.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    /// The time at which a log accepted the signature.
    Logged(i64),
    /// The time of an authority's timestamp.
    Stamped(i64),
    /// The current time.
    Now(i64),
}

impl Identity {
    /// Fails unless the certificate matches this identity. `chain` has the certificates that came with it.
    pub(crate) fn check(
        &self,
        leaf: &Certificate,
        chain: &[Vec<u8>],
        moment: Moment,
    ) -> Result<(), Refusal> {
        let (at, when) = match moment {
            Moment::Logged(at) => (at, "the log's timestamp of the signature"),
            Moment::Stamped(at) => (at, "the timestamp of the signature"),
            Moment::Now(at) => (at, "now"),
        };
        if !leaf.is_valid(at) {
            return Err(Refusal::NotValid {
                from: time::show(leaf.from),
                until: time::show(leaf.until),
                when,
                at: time::show(at),
            });
        }
        let key = self.authorities.check(leaf, chain, at)?;
        if let Some(wanted) = &self.issuer {
            if !leaf.signs_code {
                return Err(Refusal::Chain("it is not for code signing".to_owned()));
            }
            let found = leaf.issuer.as_deref().unwrap_or("an unnamed issuer");
            if found != wanted {
                return Err(Refusal::Issuer {
                    found: found.to_owned(),
                    wanted: wanted.clone(),
                });
            }
        }
        if let Some(wanted) = self.subject.iter().find(|one| !one.is(leaf)) {
            return Err(Refusal::Subject {
                found: found(leaf),
                wanted: wanted.to_string(),
            });
        }
        if !self.certificate_logs.is_empty() {
            sct::check(leaf, &key, &self.certificate_logs)?;
        }
        Ok(())
    }
}

impl Subject {
    /// Creates a requirement for a host name.
    pub fn host(name: &str) -> Result<Self, String> {
        match ServerName::try_from(name) {
            Ok(_) => Ok(Self::Host(name.to_owned())),
            Err(_) => Err(format!("{name:?} is not a host name")),
        }
    }

    fn is(&self, leaf: &Certificate) -> bool {
        match self {
            Self::Email(wanted) => leaf.emails.contains(wanted),
            Self::Pattern(wanted) => {
                let mut names = leaf.emails.iter().chain(&leaf.addresses);
                names.any(|name| wanted.matches(name))
            }
            Self::Host(wanted) => {
                let der = CertificateDer::from(leaf.der());
                let entity = EndEntityCert::try_from(&der);
                let host = ServerName::try_from(wanted.as_str());
                matches!((entity, host), (Ok(entity), Ok(host))
                    if entity.verify_is_valid_for_subject_name(&host).is_ok())
            }
        }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Email(name) | Self::Host(name) => f.write_str(name),
            Self::Pattern(pattern) => f.write_str(pattern.text()),
        }
    }
}

/// Returns the names in a certificate, for messages.
pub(crate) fn found(leaf: &Certificate) -> String {
    let names = leaf.emails.iter().chain(&leaf.addresses);
    let names: Vec<&str> = names.take(4).map(String::as_str).collect();
    if names.is_empty() {
        return "a subject without an e-mail address or URI".to_owned();
    }
    names.join(", ").chars().take(512).collect()
}
