//! Attestations that are in no bundle.

use orlop_testkit::ImageAttestation;

use super::*;
use crate::evidence::Attestation;

const SAID: &str = "https://slsa.dev/provenance/v1";

fn kept(attestation: &ImageAttestation) -> Attestation {
    Attestation {
        envelope: attestation.envelope.clone(),
        certificate: attestation.certificate.clone(),
        chain: attestation.chain.clone(),
        log: attestation.log.clone(),
        is_stamped: false,
    }
}

impl Scene {
    fn judge_attestations(
        &self,
        requirement: &Value,
        attestations: &[ImageAttestation],
    ) -> Result<String, String> {
        let evidence = Evidence {
            attestations: attestations.iter().map(kept).collect(),
            ..Evidence::default()
        };
        self.judge(requirement, evidence)
    }

    fn said_by(&self, person: &Person, kind: &str) -> ImageAttestation {
        let said = self.statement(Some("a.example/app"), kind);
        person.attest(&said, Some((&self.log, USED)))
    }
}

fn asking(mut requirement: Value) -> Value {
    requirement["predicateTypes"] = json!(["https://a.example/x", SAID]);
    requirement
}

#[test]
fn an_attestation_of_a_login_counts_for_its_type_its_image_and_its_name() {
    let scene = Scene::new();
    let person = scene.person();
    let good = scene.said_by(&person, SAID);
    let wanted = asking(scene.fulcio("matchRepository"));
    let reason = scene.judge_attestations(&wanted, std::slice::from_ref(&good));
    let said = format!(
        "{SAID} by {EMAIL} as \"a.example/app\" with digest {}",
        scene.image
    );
    assert_eq!(reason, Ok(said));
    let exact = asking(scene.fulcio("matchExact"));
    let judge =
        |requirement: &Value, one: ImageAttestation| scene.judge_attestations(requirement, &[one]);
    refused(judge(&exact, good.clone()), "without a tag");
    let other = scene.said_by(&person, "https://a.example/other");
    refused(judge(&wanted, other), "but has no such attestation");
    let of = |digest: &Digest| statement(&digest.to_string(), Some("a.example/app"), SAID);
    let noted = Some((&scene.log, USED));
    let other = person.attest(&of(&Digest::of(b"other")), noted);
    refused(judge(&wanted, other), "it is for another image, sha256:");
    let unnoted = person.attest(&of(&scene.image), None);
    refused(judge(&wanted, unnoted), "it is not in a transparency log");
    let mut borrowed = good.clone();
    borrowed.log = scene.said_by(&scene.person(), SAID).log;
    refused(judge(&wanted, borrowed), "the log entry is for another");
    let mut late = scene.wish();
    late.valid = (BEGIN, USED - 1);
    let late = scene.said_by(&scene.authority.certify(&late), SAID);
    refused(
        judge(&wanted, late),
        "the log's timestamp of the signature is",
    );
    let mut stranger = good.clone();
    stranger.certificate = scene
        .person()
        .certificates
        .first()
        .map(|_| scene.person().certificate_pem());
    refused(
        judge(&wanted, stranger),
        "it is not signed with the key of its certificate",
    );
    // Who asks for a signature has not asked for this.
    refused(
        judge(&scene.fulcio("matchRepository"), good),
        "it must be signed, but has no signature",
    );
}

#[test]
fn an_attestation_by_a_key_counts_and_what_is_none_does_not() {
    let scene = Scene::new();
    let person = Person::with(Key::new());
    let key = scene.write("key.pub", &person.key.pem());
    let wanted = asking(json!({
        "type": "sigstoreSigned",
        "keyPath": key,
        "signedIdentity": { "type": "matchRepository" },
    }));
    let good = person.attest(&scene.statement(Some("a.example/app"), SAID), None);
    let others = Person::with(Key::new());
    let others = others.attest(&scene.statement(Some("a.example/app"), SAID), None);
    let broken = |change: &dyn Fn(&mut Value)| {
        let mut envelope: Value = serde_json::from_str(&good.envelope).unwrap();
        change(&mut envelope);
        ImageAttestation {
            envelope: envelope.to_string(),
            ..good.clone()
        }
    };
    let twice = broken(&|it| it["signatures"] = json!([it["signatures"][0], it["signatures"][0]]));
    let other_kind = broken(&|it| it["payloadType"] = "text/plain".into());
    let forged = scene.statement(Some("a.example/app"), "https://a.example/x");
    let forged = BASE64_STANDARD.encode(forged.to_string());
    let forged = broken(&|it| it["payload"] = forged.clone().into());
    let empty = broken(&|it| *it = Value::Null);
    for (bad, complaint) in [
        (others, "it is not signed with "),
        (
            twice,
            "the envelope is malformed: it does not have exactly one signature",
        ),
        (
            other_kind,
            "its envelope contains \"text/plain\", not a statement",
        ),
        (forged, "it is not signed with "),
        (empty, "the envelope is malformed"),
    ] {
        let bad = [bad];
        refused(scene.judge_attestations(&wanted, &bad), complaint);
        let [bad] = bad;
        scene
            .judge_attestations(&wanted, &[bad, good.clone()])
            .unwrap();
    }
}
