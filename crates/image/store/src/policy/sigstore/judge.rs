//! Checks whether an image fulfils a `sigstoreSigned` requirement.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_sigstore::{
    Beside, Bundle, By, Content, Demand, Detached, Envelope, Refusal, Signer, Statement,
};

use super::SigstoreSigned;
use super::trust::{Signers, Trust};
use crate::Digest;
use crate::clock::now;
use crate::evidence::{Attestation, Signature};
use crate::policy::marks::{Accepts, Marks};
use crate::policy::payload::{Kind, Payload};
use crate::policy::subject::{Subject, any_of};
use crate::policy::tags::tag_of;

impl SigstoreSigned {
    /// Returns the signer and the name that the image is signed with, or the reason why no signature is accepted.
    /// Fails if a trusted key or certificate cannot be read. Blocks.
    pub(crate) fn judge(&self, subject: Subject<'_>) -> Result<Result<String, String>, String> {
        let trust = self.load()?;
        let trial = Trial {
            wanted: self,
            trust: &trust,
            subject,
        };
        Ok(trial.outcome())
    }

    /// Marks all items that fulfil the requirement. Fails like [`Self::judge`]. Blocks.
    pub(crate) fn mark(&self, subject: Subject<'_>, marks: &mut Marks) -> Result<(), String> {
        let trust = self.load()?;
        let trial = Trial {
            wanted: self,
            trust: &trust,
            subject,
        };
        let requirement = marks.requirement();
        for (signature, mark) in trial.signatures().iter().zip(&mut marks.signatures) {
            if let Ok(accepts) = trial.signature(signature) {
                mark.add(requirement, &accepts);
            }
        }
        for (text, mark) in subject.evidence.bundles.iter().zip(&mut marks.bundles) {
            let bundle = read(text);
            if !trial.is_wanted(&bundle) {
                continue;
            }
            if let Ok(accepts) = bundle.and_then(|it| trial.bundle(it)) {
                mark.add(requirement, &accepts);
            }
        }
        let attestations = subject.evidence.attestations.iter();
        for (one, mark) in attestations.zip(&mut marks.attestations) {
            let read = read_envelope(one);
            if !trial.is_wanted(&read) {
                continue;
            }
            if let Ok(accepts) = read.and_then(|it| trial.attestation(one, it)) {
                mark.add(requirement, &accepts);
            }
        }
        Ok(())
    }
}

struct Trial<'a> {
    wanted: &'a SigstoreSigned,
    trust: &'a Trust<'a>,
    subject: Subject<'a>,
}

impl Trial<'_> {
    fn outcome(&self) -> Result<String, String> {
        let evidence = self.subject.evidence;
        let signatures = self.signatures();
        let bundles = evidence.bundles.iter().map(|text| read(text));
        let bundles: Vec<_> = bundles.filter(|bundle| self.is_wanted(bundle)).collect();
        let attestations = evidence
            .attestations
            .iter()
            .map(|one| (one, read_envelope(one)));
        let attestations: Vec<_> = attestations.filter(|(_, it)| self.is_wanted(it)).collect();
        let count = signatures.len() + bundles.len() + attestations.len();
        if count == 0 {
            return Err(self.nothing());
        }
        let signatures = signatures.iter().map(|one| self.signature(one));
        let bundles = bundles.into_iter().map(|bundle| self.bundle(bundle?));
        let attestations = attestations.into_iter();
        let attestations = attestations.map(|(one, read)| self.attestation(one, read?));
        let all = signatures.chain(bundles).chain(attestations);
        let all = all.map(|outcome| outcome.map(|accepts| accepts.shown));
        any_of(self.kind(), count, all)
    }

    /// Returns the signatures that are not in bundles, if a signature is required.
    fn signatures(&self) -> &[Signature] {
        if self.wanted.predicate_types.is_empty() {
            &self.subject.evidence.signatures
        } else {
            &[]
        }
    }

    fn kind(&self) -> &'static str {
        if self.wanted.predicate_types.is_empty() {
            "signature"
        } else {
            "attestation"
        }
    }

    fn nothing(&self) -> String {
        let evidence = self.subject.evidence;
        let places: Vec<_> = evidence.manifests.iter().filter_map(tag_of).collect();
        if places.is_empty() {
            let kind = self.kind();
            return format!(
                "it must be signed, but this node stores no {kind} of it; pull it again"
            );
        }
        if !self.wanted.predicate_types.is_empty() {
            let types = self.wanted.predicate_types.join(" or ");
            return format!(
                "it must have an attestation of the type {types}, but has no such attestation"
            );
        }
        let beside = match evidence.bundles.len() {
            0 => "no bundle is attached to it".to_owned(),
            1 => "the bundle that is attached to it is not a signature".to_owned(),
            count => format!("the {count} bundles that are attached to it are not signatures"),
        };
        format!(
            "it must be signed, but has no signature: no signature was found at {}, and {beside}",
            places.join(" or ")
        )
    }

    /// Returns whether the statement has a required type. An unreadable one counts as wanted.
    fn is_wanted<T>(&self, said: &Result<(T, Statement), String>) -> bool {
        let Ok((_, statement)) = said else {
            return true;
        };
        let (found, wanted) = (&statement.predicate_type, &self.wanted.predicate_types);
        wanted.contains(found) || wanted.is_empty() && found == Statement::COSIGN_SIGN
    }

    fn demand(&self) -> Demand<'_> {
        let signer = match &self.trust.signers {
            Signers::Keys(keys, _) => Signer::Keys(keys),
            Signers::Identity(identity) => Signer::Identity(identity),
        };
        Demand {
            signer,
            logs: self.trust.logs.as_deref(),
            stampers: self.trust.stampers.as_ref(),
            now: now() as i64,
        }
    }

    fn signature(&self, signature: &Signature) -> Result<Accepts, String> {
        // Some signatures contain line breaks.
        let text: String = signature.signature.split_ascii_whitespace().collect();
        let bytes = BASE64_STANDARD.decode(text);
        let bytes = bytes.map_err(|error| format!("it is not base64: {error}"))?;
        let payload = signature.payload.as_bytes();
        let detached = Detached {
            message: payload,
            signature: &bytes,
            beside: Beside {
                certificate: signature.certificate.as_deref(),
                chain: signature.chain.as_deref(),
                log: signature.log.as_deref(),
                is_stamped: signature.is_stamped,
            },
        };
        let by = detached.verify(&self.demand());
        let by = self.signer(by)?;
        // The content is authentic from here on.
        let payload = Payload::parse(Kind::Cosign, payload)
            .map_err(|wrong| format!("cannot read the signed content: {wrong}"))?;
        if !self.subject.evidence.manifests.contains(&payload.digest) {
            return Err(format!("it is for another image, {}", payload.digest));
        }
        let (name, reference) = (self.subject.name, &payload.reference);
        self.wanted.identity.accepts(name, reference)?;
        let digest = payload.digest;
        let shown = format!("signed by {by} as {reference:?} with digest {digest}");
        let verified = [signature.payload.as_bytes(), &bytes];
        Ok(Accepts::new(shown, digest, verified))
    }

    fn bundle(&self, (bundle, statement): (Bundle, Statement)) -> Result<Accepts, String> {
        let by = bundle.verify(&self.demand(), None);
        let (shown, digest) = self.said(&self.signer(by)?, &statement)?;
        let verified = match &bundle.content {
            Content::Envelope(envelope) => verified(envelope),
            Content::Message(signature) => [&[][..], signature],
        };
        Ok(Accepts::new(shown, digest, verified))
    }

    fn attestation(
        &self,
        attestation: &Attestation,
        (envelope, statement): (Envelope, Statement),
    ) -> Result<Accepts, String> {
        let beside = Beside {
            certificate: attestation.certificate.as_deref(),
            chain: attestation.chain.as_deref(),
            log: attestation.log.as_deref(),
            is_stamped: attestation.is_stamped,
        };
        let by = envelope.verify(beside, &self.demand());
        let (shown, digest) = self.said(&self.signer(by)?, &statement)?;
        Ok(Accepts::new(shown, digest, verified(&envelope)))
    }

    /// Returns the description of a verified statement and the image digest in it, or the reason why it is not for
    /// this image.
    fn said(&self, by: &str, statement: &Statement) -> Result<(String, Digest), String> {
        let mut reason = "it does not refer to an image".to_owned();
        for subject in &statement.subjects {
            let digests = subject.digests.iter();
            let mut digests = digests.filter_map(|digest| digest.parse().ok());
            let manifests = &self.subject.evidence.manifests;
            let Some(digest) = digests.find(|digest| manifests.contains(digest)) else {
                let other = subject.digests.first();
                let other = other.map_or("which has no digest", String::as_str);
                reason = format!("it is for another image, {}", shortened(other));
                continue;
            };
            let (identity, name) = (&self.wanted.identity, self.subject.name);
            let (accepted, shown) = match &subject.name {
                Some(signed) => (identity.accepts(name, signed), format!("as {signed:?}")),
                None => (identity.accepts_nameless(), "without a name".to_owned()),
            };
            match accepted {
                Ok(()) if self.wanted.predicate_types.is_empty() => {
                    let shown = format!("signed by {by} {shown} with digest {digest}");
                    return Ok((shown, digest));
                }
                Ok(()) => {
                    let kind = &statement.predicate_type;
                    let shown = format!("{kind} by {by} {shown} with digest {digest}");
                    return Ok((shown, digest));
                }
                Err(why) => reason = why,
            }
        }
        Err(reason)
    }

    /// Describes the signer for messages.
    fn signer(&self, by: Result<By, Refusal>) -> Result<String, String> {
        match (by, &self.trust.signers) {
            (Ok(By::Key(place)), Signers::Keys(_, sources)) => Ok(sources[place].to_string()),
            (Ok(By::Key(_)), Signers::Identity(_)) => Ok("a key".to_owned()),
            (Ok(By::Identity(names)), _) => Ok(names),
            (Err(Refusal::OtherKey), Signers::Keys(_, [only])) => {
                Err(format!("it is not signed with {only}"))
            }
            (Err(Refusal::OtherKey), Signers::Keys(_, sources)) => Err(format!(
                "it is not signed with any of the {} keys",
                sources.len()
            )),
            (Err(refusal), _) => Err(refusal.to_string()),
        }
    }
}

/// Parses a bundle and its statement, without verifying it.
fn read(text: &str) -> Result<(Bundle, Statement), String> {
    let read = || {
        let bundle = Bundle::parse(text.as_bytes())?;
        let statement = match &bundle.content {
            Content::Envelope(envelope) => Statement::parse(envelope.statement()?)?,
            Content::Message(_) => {
                let problem = "it signs a message instead of an in-toto statement".to_owned();
                return Err(Refusal::Unsupported(problem));
            }
        };
        Ok((bundle, statement))
    };
    read().map_err(|refusal| refusal.to_string())
}

/// Parses an envelope that is not in a bundle, and its statement, without verifying it.
fn read_envelope(attestation: &Attestation) -> Result<(Envelope, Statement), String> {
    let read = || {
        let envelope = Envelope::parse(attestation.envelope.as_bytes())?;
        let statement = Statement::parse(envelope.statement()?)?;
        Ok((envelope, statement))
    };
    read().map_err(|refusal: Refusal| refusal.to_string())
}

/// Returns the verified content of an envelope, independent of its encoding.
fn verified(envelope: &Envelope) -> [&[u8]; 2] {
    [
        envelope.statement().unwrap_or_default(),
        envelope.signature(),
    ]
}

fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}
