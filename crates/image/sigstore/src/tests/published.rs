//! Signatures by real cosign versions, some of them in public logs for years. The keys, certificates and logs come
//! from outside of this project.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::scene::{NOW, demand};
use crate::{
    Authorities, Beside, Bundle, By, Content, Demand, Detached, Identity, PublicKey, Refusal,
    Signer, Statement, Subject,
};

/// A signature in the format of cosign 1 and 2.
#[derive(Deserialize)]
struct Kept {
    payload: String,
    annotations: Annotations,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "dev.cosignproject.cosign/signature")]
    signature: String,
    #[serde(rename = "dev.sigstore.cosign/certificate")]
    certificate: Option<String>,
    #[serde(rename = "dev.sigstore.cosign/chain")]
    chain: Option<String>,
    #[serde(rename = "dev.sigstore.cosign/bundle")]
    log: Option<String>,
}

impl Kept {
    fn read(json: &str) -> Self {
        serde_json::from_str(json).unwrap()
    }

    fn verify(&self, demand: &Demand<'_>) -> Result<By, Refusal> {
        let payload = BASE64_STANDARD.decode(&self.payload).unwrap();
        let signature = self.annotations.signature.replace('\n', "");
        let signature = BASE64_STANDARD.decode(signature).unwrap();
        let detached = Detached {
            message: &payload,
            signature: &signature,
            beside: Beside {
                certificate: self.annotations.certificate.as_deref(),
                chain: self.annotations.chain.as_deref(),
                log: self.annotations.log.as_deref(),
                is_stamped: false,
            },
        };
        detached.verify(demand)
    }
}

fn key(pem: &str) -> PublicKey {
    PublicKey::from_pem(pem.as_bytes()).unwrap()
}

/// Returns the identity of a GitHub user with this address in sigstore's public services.
fn identity(email: &str) -> Identity {
    let authorities = Authorities::from_pem(include_bytes!("published/fulcio.pem"));
    Identity {
        authorities: authorities.unwrap(),
        issuer: Some("https://github.com/login/oauth".to_owned()),
        subject: vec![Subject::Email(email.to_owned())],
        certificate_logs: vec![key(include_str!("published/ctfe.pub"))],
    }
}

fn rekor() -> [PublicKey; 1] {
    [key(include_str!("published/rekor.pub"))]
}

#[test]
fn a_bundle_of_cosign_s_in_sigstore_s_public_log_holds() {
    let bundle = Bundle::parse(include_bytes!("published/attestation.json")).unwrap();
    let logs = rekor();
    let verify = |identity: &Identity| {
        let demand = demand(Signer::Identity(identity), Some(&logs));
        bundle.verify(&demand, None)
    };
    let signer = "cody@soyland.com";
    assert_eq!(
        verify(&identity(signer)),
        Ok(By::Identity(signer.to_owned()))
    );
    let other = verify(&identity("other@soyland.com"));
    assert!(matches!(other, Err(Refusal::Subject { .. })));
    let Content::Envelope(envelope) = &bundle.content else {
        panic!("{bundle:?}");
    };
    let said = Statement::parse(envelope.statement().unwrap()).unwrap();
    assert_eq!(
        said.subjects[0].name.as_deref(),
        Some("127.0.0.1:60943/repo")
    );
    // Another certificate log does not contain it.
    let mut elsewhere = identity(signer);
    elsewhere.certificate_logs = logs.to_vec();
    assert!(matches!(verify(&elsewhere), Err(Refusal::Sct(_))));
}

#[test]
fn a_keyless_signature_of_cosign_s_in_sigstore_s_public_log_holds() {
    let kept = Kept::read(include_str!("published/keyless.json"));
    let logs = rekor();
    let verify = |identity: &Identity, logs| {
        let demand = demand(Signer::Identity(identity), logs);
        kept.verify(&demand)
    };
    let signer = "mitr@redhat.com";
    let good = identity(signer);
    assert_eq!(
        verify(&good, Some(&logs)),
        Ok(By::Identity(signer.to_owned()))
    );
    // The certificate was valid for ten minutes.
    assert!(matches!(verify(&good, None), Err(Refusal::NotValid { .. })));
}

#[test]
fn a_key_s_signature_of_cosign_s_in_sigstore_s_public_log_holds() {
    let kept = Kept::read(include_str!("published/key.json"));
    let (keys, logs) = ([key(include_str!("published/key.pub"))], rekor());
    let demand = |logs| demand(Signer::Keys(&keys), logs);
    assert_eq!(kept.verify(&demand(Some(&logs[..]))), Ok(By::Key(0)));
    let other = kept.verify(&demand(Some(&keys)));
    assert!(matches!(other, Err(Refusal::OtherLog(_))));
}

#[test]
fn a_signature_with_a_certificate_of_one_s_own_holds() {
    let kept = Kept::read(include_str!("published/pki.json"));
    let roots = Authorities::from_pem(include_bytes!("published/pki-roots.pem")).unwrap();
    let all = [include_str!("published/pki-intermediates.pem")];
    let with = roots.clone().with_intermediates(all[0].as_bytes()).unwrap();
    for authorities in [roots, with] {
        let identity = Identity {
            authorities,
            issuer: None,
            subject: vec![
                Subject::Email("qiwan@redhat.com".to_owned()),
                Subject::Host("myhost.example.com".to_owned()),
            ],
            certificate_logs: Vec::new(),
        };
        let demand = |now| Demand {
            stampers: None,
            signer: Signer::Identity(&identity),
            logs: None,
            now,
        };
        kept.verify(&demand(NOW)).unwrap();
        // The log entry is from 2024.
        let early = kept.verify(&demand(1_700_000_000));
        assert!(matches!(early, Err(Refusal::NotValid { .. })));
    }
}

#[test]
fn bundles_of_cosign_s_third_version_hold() {
    let keys = [key(include_str!("published/bundles.pub"))];
    let demand = |logs| demand(Signer::Keys(&keys), logs);
    for (json, kind, name) in [
        (
            include_str!("published/signature.json"),
            Statement::COSIGN_SIGN,
            None,
        ),
        (
            include_str!("published/provenance.json"),
            "https://slsa.dev/provenance/v1",
            Some("127.0.0.1:5977/team/app"),
        ),
    ] {
        let bundle = Bundle::parse(json.as_bytes()).unwrap();
        assert_eq!(bundle.verify(&demand(None), None), Ok(By::Key(0)));
        let logged = bundle.verify(&demand(Some(&keys)), None);
        assert!(matches!(logged, Err(Refusal::NotLogged(_))));
        let Content::Envelope(envelope) = &bundle.content else {
            panic!("{bundle:?}");
        };
        let said = Statement::parse(envelope.statement().unwrap()).unwrap();
        assert_eq!(said.predicate_type, kind);
        assert_eq!(said.subjects[0].name.as_deref(), name);
        let digest = "sha256:8e785953e15340cad38bf7a9040b062c9b890aca9593c5026d48aa30e30b8dd6";
        assert_eq!(said.subjects[0].digests, [digest]);
        // One byte is changed.
        let changed = json.replacen("\"sig\":\"ME", "\"sig\":\"MF", 1);
        let changed = Bundle::parse(changed.as_bytes()).unwrap();
        assert_eq!(changed.verify(&demand(None), None), Err(Refusal::OtherKey));
    }
}
