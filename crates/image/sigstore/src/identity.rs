//! Somebody who signs with a certificate.

use rustls_pki_types::{CertificateDer, ServerName};
use webpki::EndEntityCert;

use crate::key::PublicKey;
use crate::{Authorities, Certificate, Pattern, Refusal, sct, time};

/// Somebody who signs with a certificate.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Who makes such certificates.
    pub authorities: Authorities,
    /// Where somebody has logged in to get one; where it is asked for, the certificate must say that it is for
    /// signing code, too, as Fulcio's do.
    pub issuer: Option<String>,
    /// Who it is: all of it must be so.
    pub subject: Vec<Subject>,
    /// Certificate logs, in one of which the certificate must be, if there are any.
    pub certificate_logs: Vec<PublicKey>,
}

/// Who has signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// Who has this e-mail address.
    Email(String),
    /// Who has an e-mail address or URI like this.
    Pattern(Pattern),
    /// What has this host name.
    Host(String),
}

/// Which moment a certificate must have been valid at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    /// When a log took the signature.
    Logged(i64),
    /// When an authority says that the signature was there.
    Stamped(i64),
    /// Now.
    Now(i64),
}

impl Identity {
    /// Fails unless the certificate is one of theirs. `chain` are certificates that came with it.
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
    /// What has this host name.
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

/// Who a certificate is for, as people read it.
pub(crate) fn found(leaf: &Certificate) -> String {
    let names = leaf.emails.iter().chain(&leaf.addresses);
    let names: Vec<&str> = names.take(4).map(String::as_str).collect();
    if names.is_empty() {
        return "a subject without an e-mail address or URI".to_owned();
    }
    names.join(", ").chars().take(512).collect()
}
