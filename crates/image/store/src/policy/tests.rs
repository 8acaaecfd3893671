//! Tests of policies and signatures.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_testkit::signature::payload;
use orlop_testkit::{ImageSignature, KeyKind, Scratch, Signer, machine, skip_unless};
use serde_json::{Value, json};

use super::{Policy, PolicyFiles, Subject};
use crate::evidence::{Evidence, Signature};
use crate::{Digest, Error, Reference};

fn parse(policy: &Value) -> Result<Policy, String> {
    parse_text(&policy.to_string())
}

fn parse_text(text: &str) -> Result<Policy, String> {
    Policy::parse(Path::new("/p.json"), text.as_bytes()).map_err(|wrong| wrong.to_string())
}

fn accept() -> Value {
    json!([{ "type": "insecureAcceptAnything" }])
}

fn reject() -> Value {
    json!([{ "type": "reject" }])
}

fn with_requirement(requirement: &Value) -> Result<Policy, String> {
    parse(&json!({ "default": [requirement] }))
}

#[test]
fn only_the_most_specific_scope_counts() {
    let digest = Digest::of(b"x").to_string();
    let policy = parse(&json!({
        "default": reject(),
        "transports": {
            "docker": {
                "docker.io/library/busybox": accept(),
                "docker.io/library/busybox:bad": reject(),
                "a.example": accept(),
                "a.example/team": reject(),
                "a.example/team/app": accept(),
                "a.example/team/app:2": reject(),
                format!("a.example/team/app@{digest}"): reject(),
                "a.example:5000": reject(),
                "*.b.example": accept(),
                "c.b.example": reject(),
                "*.c.b.example": accept(),
                "Upper.example/x": accept(),
            },
            "docker-daemon": { "": accept() },
            "dir": { "/some/where": accept() },
        },
    }))
    .unwrap();
    for (image, allowed) in [
        ("busybox", true),
        ("busybox:bad", false),
        ("docker.io/library/busybox:1", true),
        ("docker.io/library/busybox2:1", false),
        ("a.example/x", true),
        ("a.example/team2/x", true),
        ("a.example/team/x", false),
        ("a.example/team/app:1", true),
        ("a.example/team/app:2", false),
        (&format!("a.example/team/app@{digest}"), false),
        (&format!("a.example/team/app:1@{digest}"), false),
        ("a.example/team/app/deep:2", true),
        ("a.example:5000/team/app:1", false),
        ("b.example/x", false),
        ("x.b.example/x", true),
        ("x.b.example:5000/x", true),
        ("c.b.example/x", false),
        ("d.c.b.example/x", true),
        ("xb.example/x", false),
        ("upper.EXAMPLE/x", true),
        ("nobody.example/x", false),
    ] {
        let name: Reference = image.parse().unwrap();
        let evidence = Evidence::default();
        let subject = Subject {
            name: Some(&name),
            evidence: &evidence,
        };
        let verdict = policy.judge(subject).unwrap();
        assert_eq!(verdict.is_allowed(), allowed, "{image}: {verdict:?}");
    }
    let evidence = Evidence::default();
    let nameless = Subject {
        name: None,
        evidence: &evidence,
    };
    assert!(!policy.judge(nameless).unwrap().is_allowed());
}

#[test]
fn a_scope_for_all_of_the_transport_goes_before_the_default() {
    let policy = parse(&json!({
        "default": reject(),
        "transports": { "docker": { "": accept() } },
    }));
    let name: Reference = "a.example/x".parse().unwrap();
    let policy = policy.unwrap();
    assert_eq!(
        policy.requirements(Some(&name)).place,
        r#"transports.docker[""]"#
    );
    assert_eq!(policy.requirements(None).place, "default");
}

#[test]
fn mistakes_in_a_policy_are_told_with_their_place() {
    let signed = |changes: Value| {
        let mut requirement = json!({ "type": "sigstoreSigned" });
        for (key, value) in changes.as_object().unwrap() {
            requirement[key] = value.clone();
        }
        json!({ "default": [requirement] }).to_string()
    };
    let scoped = |scope: &str| {
        json!({ "default": reject(), "transports": { "docker": { scope: accept() } } }).to_string()
    };
    let key = |text: &str| BASE64_STANDARD.encode(text);
    for (text, complaint) in [
        (String::new(), "EOF while parsing"),
        ("{".into(), "line 1 column 1"),
        ("[]".into(), "must be an object, not a list"),
        ("{}".into(), r#""default" is missing"#),
        (r#"{"default":[]}"#.into(), "default: must not be empty"),
        (r#"{"default":{}}"#.into(), "default: must be a list"),
        (r#"{"default":[7]}"#.into(), "default[0]: must be an object"),
        (r#"{"default":[{}]}"#.into(), r#"default[0]: "type" is missing"#),
        (
            r#"{"default":[{"type":"reject"}],"default":[{"type":"insecureAcceptAnything"}]}"#.into(),
            r#"duplicate field "default" at line 1"#,
        ),
        (
            r#"{"default":[{"type":"reject"}],"Default":[]}"#.into(),
            "Default: unknown field",
        ),
        (
            r#"{"default":[{"type":"reject"}],"transports":[]}"#.into(),
            "transports: must be an object",
        ),
        (
            r#"{"default":[{"type":"reject","keyPath":"/k"}]}"#.into(),
            "default[0].keyPath: unknown field",
        ),
        (
            r#"{"default":[{"type":"rejects"}]}"#.into(),
            r#"default[0].type: unknown requirement type "rejects""#,
        ),
        (
            r#"{"default":[{"type":"reject"}],"transports":{"atomic":{"":[{"type":"signedBaseLayer"}]}}}"#.into(),
            r#"transports.atomic[""][0].type: "signedBaseLayer" is not supported"#,
        ),
        (
            r#"{"default":[{"type":"reject"}],"transports":{"docker":{"a.io":[{"type":"x"}]}}}"#.into(),
            r#"transports.docker["a.io"][0].type: "#,
        ),
        (
            r#"{"default":[{"type":"reject"}],"transports":{"docker":{"a.io":[{"type":"reject"}],"A.io":[{"type":"reject"}]}}}"#.into(),
            r#"transports.docker["a.io"]: duplicate scope"#,
        ),
        (scoped("https://a.example"), "must not have a scheme"),
        (scoped("ex*.example"), "must cover a whole domain"),
        (scoped("a.example/"), "slash"),
        (signed(json!({})), "default[0]: needs exactly one of"),
        (signed(json!({ "keyPath": "/a", "keyData": "x" })), "default[0]: needs exactly one of"),
        (signed(json!({ "keyPath": "a" })), r#"default[0].keyPath: "a" is not an absolute path"#),
        (signed(json!({ "keyPath": 1 })), "default[0].keyPath: must be a string"),
        (signed(json!({ "keyPaths": [] })), "default[0].keyPaths: must not be empty"),
        (signed(json!({ "keyPaths": ["/a", "b"] })), "default[0].keyPaths[1]: "),
        (signed(json!({ "keyPaths": vec!["/a"; 65] })), "default[0].keyPaths: more than 64 keys"),
        (signed(json!({ "keyData": "%" })), "default[0].keyData: it is not base64"),
        (signed(json!({ "keyData": key("x") })), r#"default[0].keyData: it has no "PUBLIC KEY" block"#),
        (
            signed(json!({ "keyDatas": [key("-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n")] })),
            "default[0].keyDatas[0]: it is malformed",
        ),
        (
            signed(json!({ "keyPath": "/a", "signedIdentity": { "type": "any" } })),
            "default[0].signedIdentity.type: unknown identity type",
        ),
        (signed(json!({ "keyPath": "/a", "signedIdentity": null })), "default[0].signedIdentity: must be an object"),
        (signed(json!({ "keyPath": "/a", "keypath": "/b" })), "default[0].keypath: unknown field"),
    ] {
        let error = parse_text(&text).unwrap_err();
        assert!(error.contains(complaint), "{text}: {error}");
    }
}

/// An image, keys and a signed payload.
struct Scene {
    scratch: Scratch,
    image: Digest,
}

impl Scene {
    fn new() -> Self {
        Self {
            scratch: Scratch::new(),
            image: Digest::of(b"manifest"),
        }
    }

    fn signer(&self, name: &str, kind: KeyKind) -> Signer {
        Signer::new(&self.scratch.subdir("keys"), name, kind)
    }

    fn judge(
        &self,
        requirement: &Value,
        name: &str,
        signatures: &[ImageSignature],
    ) -> Result<String, String> {
        let evidence = Evidence {
            manifests: vec![self.image],
            signatures: signatures.iter().map(kept).collect(),
            ..Evidence::default()
        };
        judge(requirement, name, &evidence)
    }
}

/// Judges an image by a policy with one requirement; returns the reason, as an error if the requirement is not met.
pub(super) fn judge(
    requirement: &Value,
    name: &str,
    evidence: &Evidence,
) -> Result<String, String> {
    let policy = with_requirement(requirement)?;
    let name: Reference = name.parse().unwrap();
    let subject = Subject {
        name: Some(&name),
        evidence,
    };
    let verdict = policy.judge(subject).map_err(|error| error.to_string())?;
    let one = &verdict.requirements[0];
    let outcome = if one.fulfilled { Ok } else { Err };
    outcome(one.reason.clone())
}

/// Converts a signature to its stored form.
pub(super) fn kept(signature: &ImageSignature) -> Signature {
    Signature {
        payload: signature.payload.clone(),
        signature: signature.signature.clone(),
        certificate: signature.certificate.clone(),
        chain: signature.chain.clone(),
        log: signature.log.clone(),
        is_stamped: false,
    }
}

fn by(key: &Signer) -> Value {
    json!({ "type": "sigstoreSigned", "keyPath": key.public_key() })
}

#[test]
fn every_kind_of_key_verifies_its_own_signatures_only() {
    skip_unless!(machine::has_program("openssl"));
    let scene = Scene::new();
    let digest = scene.image.to_string();
    let other = scene.signer("other", KeyKind::P256);
    for kind in [
        KeyKind::P256,
        KeyKind::P384,
        KeyKind::P384Sha384,
        KeyKind::Ed25519,
        KeyKind::Rsa,
        KeyKind::RsaPss,
    ] {
        let signer = scene.signer("one", kind);
        let good = signer.sign_image(&digest, "a.example/app:1");
        let accepted = scene.judge(&by(&signer), "a.example/app:1", std::slice::from_ref(&good));
        let reason = accepted.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert!(
            reason.contains(&*signer.public_key().to_string_lossy()),
            "{reason}"
        );
        let inline = json!({
            "type": "sigstoreSigned",
            "keyDatas": [
                BASE64_STANDARD.encode(other.public_pem()),
                BASE64_STANDARD.encode(signer.public_pem()),
            ],
        });
        scene
            .judge(&inline, "a.example/app:1", std::slice::from_ref(&good))
            .unwrap();
        scene
            .judge(&by(&other), "a.example/app:1", std::slice::from_ref(&good))
            .unwrap_err();
        let mut changed = good.clone();
        changed.payload = changed.payload.replace("app:1", "app:2");
        scene
            .judge(&by(&signer), "a.example/app:2", &[changed])
            .unwrap_err();
        let mut cut = good;
        cut.signature =
            BASE64_STANDARD.encode(&BASE64_STANDARD.decode(&cut.signature).unwrap()[1..]);
        scene
            .judge(&by(&signer), "a.example/app:1", &[cut])
            .unwrap_err();
    }
}

#[test]
fn keys_that_cannot_be_used_are_named() {
    skip_unless!(machine::has_program("openssl"));
    let scene = Scene::new();
    let signature = scene.signer("a", KeyKind::P256).sign_image("x", "y");
    let judge = |path: PathBuf| {
        let requirement = json!({ "type": "sigstoreSigned", "keyPath": path });
        scene
            .judge(
                &requirement,
                "a.example/app:1",
                std::slice::from_ref(&signature),
            )
            .unwrap_err()
    };
    let p521 = scene.signer("p521", KeyKind::P521);
    assert!(judge(p521.public_key().to_owned()).contains("its key type is not supported"));
    let missing = judge(PathBuf::from("/nowhere/key.pub"));
    assert!(
        missing.starts_with("signature policy /p.json: default[0]: the key /nowhere/key.pub: "),
        "{missing}"
    );
    let write = |text: &[u8]| {
        let path = scene.scratch.path("odd.pub");
        std::fs::write(&path, text).unwrap();
        path
    };
    let pem = p521.public_pem();
    assert!(judge(write(b"")).contains("it has no \"PUBLIC KEY\""));
    assert!(judge(write(format!("{pem}{pem}").as_bytes())).contains("more than one key"));
    assert!(judge(write(&vec![b'x'; 70_000])).contains("larger than the limit of 65536 bytes"));
    assert!(judge(scene.scratch.subdir("keys")).contains("not a regular file"));
    let private = std::fs::read(scene.scratch.path("keys/p521.key")).unwrap();
    assert!(judge(write(&private)).contains("it has no \"PUBLIC KEY\""));
}

#[test]
fn a_signature_counts_for_its_image_its_name_and_its_key_only() {
    skip_unless!(machine::has_program("openssl"));
    let scene = Scene::new();
    let (digest, other) = (scene.image.to_string(), Digest::of(b"other").to_string());
    let signer = scene.signer("one", KeyKind::P256);
    let stranger = scene.signer("two", KeyKind::P256);
    let exact = json!({
        "type": "sigstoreSigned",
        "keyPath": signer.public_key(),
        "signedIdentity": { "type": "matchExact" },
    });
    let repository = json!({
        "type": "sigstoreSigned",
        "keyPath": signer.public_key(),
        "signedIdentity": { "type": "matchRepository" },
    });
    let sign = |digest: &str, name: &str| signer.sign_image(digest, name);
    let raw = |text: &str| ImageSignature {
        payload: text.to_owned(),
        signature: signer.sign(text.as_bytes()),
        ..sign("x", "y")
    };
    let not_base64 = ImageSignature {
        payload: payload(&digest, "a.example/app:1"),
        signature: "!".to_owned(),
        ..sign("x", "y")
    };
    let cosign = sign(&digest, "a.example/app");
    for (requirement, signatures, complaint) in [
        (
            &exact,
            vec![],
            "it must be signed, but has no signature: no signature was found at sha256-",
        ),
        (
            &exact,
            vec![sign(&other, "a.example/app:1")],
            "it is for another image, sha256:",
        ),
        (
            &exact,
            vec![sign(&digest, "a.example/app:2")],
            "it is for a.example/app:2, not for a.example/app:1",
        ),
        (
            &exact,
            vec![sign(&digest, "a.example/other:1")],
            "it is for a.example/other:1",
        ),
        (
            &exact,
            vec![cosign.clone()],
            "without a tag, like the signatures of cosign",
        ),
        (&by(&signer), vec![cosign.clone()], "\"matchRepository\""),
        (
            &repository,
            vec![sign(&digest, "b.example/app:1")],
            "not for an image of a.example/app",
        ),
        (
            &exact,
            vec![stranger.sign_image(&digest, "a.example/app:1")],
            "it is not signed with ",
        ),
        (&exact, vec![not_base64.clone()], "it is not base64"),
        (
            &exact,
            vec![raw("{}")],
            "cannot read the signed content: \"critical\" is missing",
        ),
        (&exact, vec![raw("")], "cannot read the signed content"),
        (
            &exact,
            vec![not_base64, sign(&digest, "a.example/app:2"), cosign.clone()],
            "none of its 3 signatures is accepted: ",
        ),
    ] {
        let reason = scene
            .judge(requirement, "a.example/app:1", &signatures)
            .unwrap_err();
        assert!(reason.contains(complaint), "{reason}");
    }
    let good = sign(&digest, "a.example/app:1");
    let among = vec![
        stranger.sign_image(&digest, "a.example/app:1"),
        good.clone(),
    ];
    scene.judge(&exact, "a.example/app:1", &among).unwrap();
    scene
        .judge(&repository, "a.example/app:1", &[cosign])
        .unwrap();
    scene
        .judge(&repository, "a.example/app:9", &[good])
        .unwrap();
}

#[test]
fn all_requirements_must_be_fulfilled() {
    skip_unless!(machine::has_program("openssl"));
    let scene = Scene::new();
    let (one, two) = (
        scene.signer("1", KeyKind::P256),
        scene.signer("2", KeyKind::P256),
    );
    let policy = parse(&json!({ "default": [by(&one), by(&two)] })).unwrap();
    let name: Reference = "a.example/app:1".parse().unwrap();
    let judge = |signers: &[&Signer]| {
        let signatures = signers.iter().map(|signer| {
            let signed = signer.sign_image(&scene.image.to_string(), "a.example/app:1");
            kept(&signed)
        });
        let evidence = Evidence {
            manifests: vec![scene.image],
            signatures: signatures.collect(),
            ..Evidence::default()
        };
        let subject = Subject {
            name: Some(&name),
            evidence: &evidence,
        };
        policy.judge(subject).unwrap().is_allowed()
    };
    assert!(judge(&[&one, &two]));
    assert!(!judge(&[&one]));
    assert!(!judge(&[&two]));
}

#[test]
fn a_namespace_has_its_own_file_or_the_node_s() {
    let scratch = Scratch::new();
    let dir = scratch.subdir("policies");
    let node = scratch.path("policy.json");
    let files = PolicyFiles {
        node: Some(node.clone()),
        namespaces: Some(dir.clone()),
    };
    let place = |namespace: &str| {
        let policy = files.read(namespace)?.map(|policy| policy.file.clone());
        Ok::<_, Error>(policy)
    };
    let missing = place("team").unwrap_err().to_string();
    orlop_testkit::assert_contains!(missing, "policy.json: the file does not exist");
    let text = json!({ "default": reject() }).to_string();
    std::fs::write(&node, &text).unwrap();
    std::fs::write(dir.join("team.json"), &text).unwrap();
    assert_eq!(place("team").unwrap(), Some(dir.join("team.json")));
    assert_eq!(place("other").unwrap(), Some(node.clone()));
    assert_eq!(place("").unwrap(), Some(node.clone()));
    assert_eq!(files.check().0, 2);
    assert!(files.doubts().is_empty());
    let scopes = json!({ "docker": { "a.example/Team": reject(), "a.example": reject() } });
    let doubtful = json!({ "default": reject(), "transports": scopes });
    std::fs::write(dir.join("odd.json"), doubtful.to_string()).unwrap();
    assert_eq!(files.check().0, 3);
    let doubts = files.doubts();
    let [doubt] = &doubts[..] else {
        panic!("{doubts:?}");
    };
    let doubt = doubt.to_string();
    let told = "odd.json: transports.docker[\"a.example/Team\"]: no image matches this scope: ";
    assert!(doubt.contains(told), "{doubt}");
    std::fs::remove_file(dir.join("odd.json")).unwrap();
    for odd in [
        "../policy",
        "a/b",
        "..",
        ".hidden",
        "a\0b",
        "ä",
        &"x".repeat(300),
    ] {
        let error = place(odd).unwrap_err().to_string();
        assert!(
            error.contains("is not a valid namespace name"),
            "{odd}: {error}"
        );
    }
    std::fs::write(dir.join("team.json"), "{").unwrap();
    let broken = place("team").unwrap_err().to_string();
    assert!(broken.contains("team.json: EOF while parsing"), "{broken}");
    std::fs::remove_file(dir.join("team.json")).unwrap();
    std::os::unix::fs::symlink("/nowhere", dir.join("team.json")).unwrap();
    place("team").unwrap_err();
    let (right, wrong) = files.check();
    assert_eq!((right, wrong.len()), (1, 1));
    let only_namespaces = PolicyFiles {
        node: None,
        namespaces: Some(scratch.path("none")),
    };
    assert_eq!(only_namespaces.read("team").unwrap(), None);
    let (right, wrong) = only_namespaces.check();
    assert_eq!((right, wrong.len()), (0, 0));
}
