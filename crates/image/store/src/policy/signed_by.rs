//! `signedBy`: GPG-signed messages in configured signature stores.

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_openpgp::{Keyring, Message};

use super::identity::SignedIdentity;
use super::json::{At, Fields, Wrong};
use super::key::several;
use super::marks::{Accepts, Marks};
use super::payload::{Kind, Payload};
use super::subject::{Subject, any_of};

/// Maximum size of a key file. Most of its content is signatures of other people on the keys.
const MAX_FILE: u64 = 1 << 20;

/// Key types in the specification that are not supported, and the supported one.
const KEY_TYPES: [&str; 3] = ["signedByGPGKeys", "X509Certificates", "signedByX509CAs"];
const GPG_KEYS: &str = "GPGKeys";

/// A requirement for a signature by one of the keys, for a certain name.
#[derive(Debug)]
pub(crate) struct SignedBy {
    keys: GpgKeys,
    identity: SignedIdentity,
}

/// The location of the keys, of which any one is sufficient.
#[derive(Debug)]
pub(crate) enum GpgKeys {
    /// In files, which are read on demand.
    Files(Vec<PathBuf>),
    /// In the policy itself.
    Inline(Vec<u8>),
}

impl SignedBy {
    /// Parses the fields other than the type.
    pub(super) fn parse(fields: &mut Fields) -> Result<Self, Wrong> {
        let kind = fields.required("keyType")?;
        let place = kind.place.clone();
        match kind.text()?.as_str() {
            GPG_KEYS => {}
            kind if KEY_TYPES.contains(&kind) => {
                let problem = format!("key type {kind:?} is not supported; use {GPG_KEYS:?}");
                return Err(Wrong::new(&place, problem));
            }
            other => {
                let problem = format!("unknown key type {other:?}; use {GPG_KEYS:?}");
                return Err(Wrong::new(&place, problem));
            }
        }
        let [path, paths, data] = ["keyPath", "keyPaths", "keyData"].map(|name| fields.take(name));
        let keys = match (path, paths, data) {
            (Some(path), None, None) => GpgKeys::Files(vec![path.absolute_path()?]),
            (None, Some(paths), None) => GpgKeys::Files(several(paths, At::absolute_path)?),
            (None, None, Some(data)) => {
                let place = data.place.clone();
                let bytes = BASE64_STANDARD.decode(data.text()?);
                let bytes = bytes
                    .map_err(|error| Wrong::new(&place, format!("it is not base64: {error}")))?;
                let read = Keyring::new().add(&bytes);
                read.map_err(|error| Wrong::new(&place, error))?;
                GpgKeys::Inline(bytes)
            }
            _ => {
                let problem = "needs exactly one of \"keyPath\", \"keyPaths\" and \"keyData\"";
                return Err(Wrong::new(&fields.place, problem));
            }
        };
        let identity = SignedIdentity::parse_or_default(fields)?;
        Ok(Self { keys, identity })
    }

    /// Reads the keys. Fails with the reason if no key is usable. Blocks.
    pub(super) fn check(&self, now: u64) -> Result<(), String> {
        let keys = self.keys.load()?;
        keys.check(now)
            .map_err(|refusal| format!("{}: {refusal}", self.keys.shown()))
    }

    /// Returns the key and the name that the image is signed with, or the reason why no signature is accepted. Fails
    /// if the keys cannot be read. Blocks.
    pub(super) fn judge(
        &self,
        subject: Subject<'_>,
        now: u64,
    ) -> Result<Result<String, String>, String> {
        let keys = self.keys.load()?;
        let messages = &subject.evidence.messages;
        if messages.is_empty() {
            let reason = if subject.evidence.manifests.is_empty() {
                "it must be signed, but this node stores no signature of it; pull it again"
            } else {
                "it must be signed with GPG, but has no signature: images.signature_stores \
                 configures no store for its name, or the store has no signature of it"
            };
            return Ok(Err(reason.to_owned()));
        }
        let accepted = |message: &String| {
            let accepts = self.accepts(message, subject, &keys, now);
            accepts.map(|it| it.shown)
        };
        let outcomes = messages.iter().map(accepted);
        Ok(any_of("signature", messages.len(), outcomes))
    }

    /// Marks all messages that fulfil the requirement. Fails like [`Self::judge`]. Blocks.
    pub(super) fn mark(
        &self,
        subject: Subject<'_>,
        now: u64,
        marks: &mut Marks,
    ) -> Result<(), String> {
        let keys = self.keys.load()?;
        let requirement = marks.requirement();
        for (message, mark) in subject.evidence.messages.iter().zip(&mut marks.messages) {
            if let Ok(accepts) = self.accepts(message, subject, &keys, now) {
                mark.add(requirement, &accepts);
            }
        }
        Ok(())
    }

    fn accepts(
        &self,
        message: &str,
        subject: Subject<'_>,
        keys: &Keyring,
        now: u64,
    ) -> Result<Accepts, String> {
        let bytes = BASE64_STANDARD.decode(message);
        let bytes = bytes.map_err(|error| format!("it is not base64: {error}"))?;
        let message = Message::parse(&bytes).map_err(|error| error.to_string())?;
        let verified = message.verify(keys, now).map_err(|refusal| match refusal {
            orlop_openpgp::Refusal::UnknownKey(_) => {
                format!("{refusal}; the trusted keys are {}", self.keys.shown())
            }
            other => other.to_string(),
        })?;
        // The content is authentic from here on.
        let payload = Payload::parse(Kind::Atomic, verified.content)
            .map_err(|wrong| format!("cannot read the signed content: {wrong}"))?;
        if !subject.evidence.manifests.contains(&payload.digest) {
            return Err(format!("it is for another image, {}", payload.digest));
        }
        self.identity.accepts(subject.name, &payload.reference)?;
        let shown = format!(
            "signed by {} as {:?} with digest {}",
            verified.signer, payload.reference, payload.digest
        );
        // The same signature may be encoded in several ways.
        let by = format!("{:?} {:?}", verified.signer.fingerprint, message.trailer());
        let made = [verified.content, by.as_bytes()];
        Ok(Accepts::new(shown, payload.digest, made))
    }
}

impl GpgKeys {
    /// Loads the keys. Blocks.
    fn load(&self) -> Result<Keyring, String> {
        let mut keys = Keyring::new();
        match self {
            Self::Files(paths) => {
                for path in paths {
                    let wrong = |reason: String| format!("the keys {}: {reason}", path.display());
                    let file = orlop_fs::read_file(path, MAX_FILE);
                    let file = file.map_err(|error| wrong(error.to_string()))?;
                    keys.add(&file).map_err(|error| wrong(error.to_string()))?;
                }
            }
            Self::Inline(bytes) => keys.add(bytes).map_err(|error| error.to_string())?,
        }
        Ok(keys)
    }

    /// Describes the keys for messages.
    fn shown(&self) -> String {
        match self {
            Self::Files(paths) => {
                let paths: Vec<_> = paths.iter().map(|it| it.display().to_string()).collect();
                paths.join(", ")
            }
            Self::Inline(_) => "the policy's own keys".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use orlop_testkit::gpg::image_payload;
    use orlop_testkit::{Gpg, Scratch, machine, skip_unless};
    use serde_json::{Value, json};

    use super::*;
    use crate::evidence::Evidence;
    use crate::policy::{Policy, PolicyFiles};
    use crate::{Digest, Reference};

    const NAME: &str = "a.example/app:1";

    fn parse(requirement: &Value) -> Result<Policy, String> {
        let text = json!({ "default": [requirement] }).to_string();
        let parsed = Policy::parse(Path::new("/p.json"), text.as_bytes());
        parsed.map_err(|wrong| wrong.to_string())
    }

    fn with(changes: &Value) -> Value {
        let mut requirement = json!({ "type": "signedBy", "keyType": "GPGKeys" });
        for (key, value) in changes.as_object().unwrap() {
            requirement[key] = value.clone();
        }
        requirement
    }

    fn image() -> Digest {
        Digest::of(b"manifest")
    }

    fn payload(digest: &Digest, name: &str) -> Vec<u8> {
        image_payload(&digest.to_string(), name)
    }

    /// Returns the signer of an accepted message, or the reason why none is accepted.
    fn judge(requirement: &Value, messages: &[Vec<u8>]) -> Result<String, String> {
        let policy = parse(requirement)?;
        let name: Reference = NAME.parse().unwrap();
        let messages = messages.iter().map(|it| BASE64_STANDARD.encode(it));
        let evidence = Evidence {
            manifests: vec![image()],
            messages: messages.collect(),
            ..Evidence::default()
        };
        let subject = Subject {
            name: Some(&name),
            evidence: &evidence,
        };
        let verdict = policy.judge(subject).map_err(|error| error.to_string())?;
        let one = &verdict.requirements[0];
        assert_eq!(one.kind, "signedBy");
        if one.fulfilled {
            Ok(one.reason.clone())
        } else {
            Err(one.reason.clone())
        }
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (changes, complaint) in [
            (json!({}), "default[0]: needs exactly one of"),
            (
                json!({ "keyPath": "/a", "keyData": "" }),
                "default[0]: needs exactly one of",
            ),
            (
                json!({ "keyPath": "/a", "keyPaths": ["/b"] }),
                "default[0]: needs exactly one of",
            ),
            (
                json!({ "keyPath": "a" }),
                r#"default[0].keyPath: "a" is not an absolute path"#,
            ),
            (
                json!({ "keyPaths": [] }),
                "default[0].keyPaths: must not be empty",
            ),
            (
                json!({ "keyPaths": ["/a", 1] }),
                "default[0].keyPaths[1]: must be a string",
            ),
            (
                json!({ "keyPaths": vec!["/a"; 65] }),
                "default[0].keyPaths: more than 64 keys",
            ),
            (
                json!({ "keyData": "%" }),
                "default[0].keyData: it is not base64",
            ),
            (
                json!({ "keyData": "eA==" }),
                "default[0].keyData: it is not OpenPGP",
            ),
            (
                json!({ "keyDatas": ["eA=="] }),
                "default[0]: needs exactly one of",
            ),
            (
                json!({ "keyPath": "/a", "fulcio": {} }),
                "default[0].fulcio: unknown field",
            ),
            (
                json!({ "keyPath": "/a", "keyType": "X509Certificates" }),
                r#"default[0].keyType: key type "X509Certificates" is not supported; use "GPGKeys""#,
            ),
            (
                json!({ "keyPath": "/a", "keyType": "x" }),
                "unknown key type \"x\"",
            ),
            (
                json!({ "keyPath": "/a", "keyType": null }),
                "default[0].keyType: must be a string",
            ),
            (
                json!({ "keyPath": "/a", "signedIdentity": { "type": "any" } }),
                "default[0].signedIdentity.type: unknown identity type",
            ),
        ] {
            let error = parse(&with(&changes)).unwrap_err();
            assert!(error.contains(complaint), "{changes}: {error}");
        }
        let without = json!({ "type": "signedBy", "keyPath": "/a" });
        assert_eq!(
            parse(&without).unwrap_err(),
            r#"default[0]: "keyType" is missing"#
        );
    }

    #[test]
    fn a_message_counts_for_its_image_its_name_and_its_key_only() {
        skip_unless!(machine::has_program("gpg"));
        let (gpg, scratch) = (Gpg::new(), Scratch::new());
        let [a, b] = ["a <a@a.example>", "b"].map(|user| {
            let key = gpg.make_key(user, "ed25519", "sign", "never");
            let file = scratch.path(&key);
            std::fs::write(&file, gpg.export(&key)).unwrap();
            (key, file)
        });
        let good = gpg.sign(&a.0, &[], &payload(&image(), NAME));
        let by_a = with(&json!({ "keyPath": a.1 }));
        let accepted = judge(&by_a, std::slice::from_ref(&good)).unwrap();
        assert_eq!(
            accepted,
            format!(
                "signed by {} (a <a@a.example>) as {NAME:?} with digest {}",
                a.0,
                image()
            )
        );
        let by_any = with(&json!({ "keyPaths": [b.1, a.1] }));
        judge(&by_any, std::slice::from_ref(&good)).unwrap();
        let inline = with(&json!({ "keyData": BASE64_STANDARD.encode(gpg.export_text(&a.0)) }));
        judge(&inline, std::slice::from_ref(&good)).unwrap();
        let any_tag = json!({ "keyPath": a.1, "signedIdentity": { "type": "matchRepository" } });
        let other_tag = gpg.sign(&a.0, &[], &payload(&image(), "a.example/app:2"));
        judge(&with(&any_tag), std::slice::from_ref(&other_tag)).unwrap();
        let other = Digest::of(b"other");
        let cosign = String::from_utf8(payload(&image(), NAME)).unwrap();
        let cosign = cosign.replace("atomic container", "cosign container image");
        for (message, complaint) in [
            (
                gpg.sign(&b.0, &[], &payload(&image(), NAME)),
                format!(
                    "signed with the unknown key {}; the trusted keys are {}",
                    b.0,
                    a.1.display()
                ),
            ),
            (
                gpg.sign(&a.0, &[], &payload(&other, NAME)),
                format!("for another image, {other}"),
            ),
            (
                other_tag,
                "it is for a.example/app:2, not for a.example/app:1".to_owned(),
            ),
            (
                gpg.sign(&a.0, &[], cosign.as_bytes()),
                "critical.type: ".to_owned(),
            ),
            (
                gpg.sign(&a.0, &[], b"{}"),
                "\"critical\" is missing".to_owned(),
            ),
            (
                b"\0sigstore-json\n{}".to_vec(),
                "it is not OpenPGP".to_owned(),
            ),
            (Vec::new(), "it is empty".to_owned()),
        ] {
            let refused = judge(&by_a, std::slice::from_ref(&message)).unwrap_err();
            assert!(refused.contains(&complaint), "{refused}");
            judge(&by_a, &[message, good.clone()]).unwrap();
        }
        let none = judge(&by_a, &[]).unwrap_err();
        assert!(
            none.contains("it must be signed with GPG, but has no signature"),
            "{none}"
        );
    }

    #[test]
    fn keys_that_cannot_be_had_let_nothing_pass_and_are_told_before() {
        skip_unless!(machine::has_program("gpg"));
        let (mut gpg, scratch) = (Gpg::new(), Scratch::new());
        let key = gpg.make_key("a", "ed25519", "sign", "never");
        let file = scratch.path("a.gpg");
        std::fs::write(&file, gpg.export(&key)).unwrap();
        let message = gpg.sign(&key, &[], &payload(&image(), NAME));
        let policy = scratch.path("policy.json");
        let files = PolicyFiles {
            node: Some(policy.clone()),
            namespaces: None,
        };
        let told = |requirement: &Value| {
            let text = json!({ "default": [requirement] }).to_string();
            std::fs::write(&policy, text).unwrap();
            let (_, errors) = files.check();
            errors.first().map(ToString::to_string)
        };
        let both = with(&json!({ "keyPaths": [file, "/nowhere.gpg"] }));
        let refused = judge(&both, std::slice::from_ref(&message)).unwrap_err();
        let reason = "default[0]: the keys /nowhere.gpg: ";
        assert!(refused.contains(reason), "{refused}");
        assert!(told(&both).unwrap().contains(reason));
        assert_eq!(told(&with(&json!({ "keyPath": file }))), None);
        gpg.set_time(Some("20200101T000000"));
        let old = gpg.make_key("b", "ed25519", "sign", "1d");
        let expired = scratch.path("b.gpg");
        std::fs::write(&expired, gpg.export(&old)).unwrap();
        let told_of = told(&with(&json!({ "keyPath": expired }))).unwrap();
        let reason = format!("b.gpg: the key {old} (b) expired on 2020-01-02");
        assert!(told_of.contains(&reason), "{told_of}");
        assert_eq!(told(&with(&json!({ "keyPaths": [expired, file] }))), None);
    }
}
