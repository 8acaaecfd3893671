//! Layers that skopeo encrypts, opened here: by each kind of key, for several, with what is not right.

#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "what a test makes is there, and it reads what it wrote itself"
)]

macro_rules! scene {
    () => {
        match Scene::new() {
            Some(scene) => scene,
            None => skip!("skopeo or openssl is missing"),
        }
    };
}

mod passphrases;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_encryption::{KEYS, PUBLIC_OPTIONS, Plain, PrivateKey, Refused, Wrapped};
use orlop_testkit::encryption::LayerKeyKind::{Curve, Rsa};
use orlop_testkit::encryption::{self, LayerKey, LayerKeyKind};
use orlop_testkit::{ImageBuilder, Layer, Scratch, assert_contains, skip};

type Annotations = BTreeMap<String, String>;

/// An image and keys, on the disk.
struct Scene {
    scratch: Scratch,
    /// The layer before it is encrypted.
    layer: Vec<u8>,
}

/// A layer as skopeo has encrypted it.
struct Encrypted {
    annotations: Annotations,
    bytes: Vec<u8>,
}

fn run(program: &str, words: &[&str]) {
    orlop_testkit::process::run(Command::new(program).args(words));
}

impl Scene {
    fn new() -> Option<Self> {
        encryption::can_encrypt().ok()?;
        let scratch = Scratch::new();
        let image = ImageBuilder::new()
            .layer(Layer::new().noise("cargo", 100_000))
            .build();
        image.write_oci_layout(&scratch.subdir("plain"), "a.example/x:1");
        let layer = image.layers[0].bytes.clone();
        Some(Self { scratch, layer })
    }

    fn path(&self, name: &str) -> String {
        self.scratch.path(name).display().to_string()
    }

    fn key(&self, name: &str, kind: LayerKeyKind) -> PathBuf {
        LayerKey::make(self.scratch.dir(), name, kind).private
    }

    fn rsa(&self, name: &str) -> PathBuf {
        self.key(name, Rsa(2048))
    }

    fn encrypt(&self, recipients: &[String]) -> Encrypted {
        let (from, to) = (self.path("plain"), self.path("encrypted"));
        let _ = fs::remove_dir_all(&to);
        let (from, to) = (format!("oci:{from}:a.example/x:1"), format!("oci:{to}"));
        encryption::encrypt(&from, &to, recipients);
        let dir = self.scratch.path("encrypted");
        let json = |path: &Path| -> serde_json::Value {
            serde_json::from_slice(&fs::read(path).expect("read")).expect("JSON")
        };
        let blob = |descriptor: &serde_json::Value| {
            let digest = descriptor["digest"].as_str().expect("a digest");
            dir.join("blobs").join(digest.replace(':', "/"))
        };
        let index = json(&dir.join("index.json"));
        let manifest = json(&blob(&index["manifests"][0]));
        let layer = &manifest["layers"][0];
        let kind = layer["mediaType"].as_str().expect("a type");
        assert!(kind.ends_with("+encrypted"), "{kind}");
        Encrypted {
            annotations: serde_json::from_value(layer["annotations"].clone()).expect("annotations"),
            bytes: fs::read(blob(layer)).expect("read"),
        }
    }
}

fn keys(path: &Path) -> Vec<PrivateKey> {
    PrivateKey::all_of(&fs::read(path).expect("read"), None).expect("a key")
}

fn plain(encrypted: &Encrypted, keys: &[PrivateKey]) -> Option<Vec<u8>> {
    let wrapped = Wrapped::of(&encrypted.annotations).expect("annotations");
    let options = wrapped.open(keys).expect("open")?;
    let mut bytes = Vec::new();
    let mut reader = Plain::new(Cursor::new(&encrypted.bytes), &options);
    reader.read_to_end(&mut bytes).expect("decrypt");
    Some(bytes)
}

#[test]
fn each_kind_of_key_opens_what_is_encrypted_for_it_and_no_other() {
    let scene = scene!();
    let mut made = vec![
        ("rsa", scene.rsa("rsa")),
        ("large", scene.key("large", Rsa(4096))),
        ("p256", scene.key("p256", Curve("P-256"))),
        ("p384", scene.key("p384", Curve("P-384"))),
        ("p521", scene.key("p521", Curve("P-521"))),
    ];
    // The older forms of the same keys.
    for (name, options) in [("rsa", &["rsa", "-traditional"][..]), ("p384", &["ec"])] {
        let (from, to) = (
            scene.path(&format!("{name}.pem")),
            scene.path(&format!("old-{name}.pem")),
        );
        run("openssl", &[options, &["-in", &from, "-out", &to]].concat());
        fs::copy(
            scene.path(&format!("{name}.pub")),
            scene.path(&format!("old-{name}.pub")),
        )
        .expect("copy");
        let text = fs::read_to_string(&to).expect("read");
        assert_contains!(text, &format!("{} PRIVATE KEY", options[0].to_uppercase()));
        made.push((
            if name == "rsa" { "old-rsa" } else { "old-p384" },
            to.into(),
        ));
    }
    let same =
        |one: &str, other: &str| one.trim_start_matches("old-") == other.trim_start_matches("old-");
    for (name, _) in &made {
        let encrypted = scene.encrypt(&[format!("jwe:{}", scene.path(&format!("{name}.pub")))]);
        assert_ne!(encrypted.bytes, scene.layer);
        for (other, path) in &made {
            let opened = plain(&encrypted, &keys(path));
            let expected = same(name, other).then(|| scene.layer.clone());
            assert!(opened == expected, "{name} by {other}");
        }
        assert!(plain(&encrypted, &[]).is_none());
    }
}

#[test]
fn a_certificate_s_key_opens_pkcs7_and_one_of_several_is_enough() {
    let scene = scene!();
    let (rsa, other) = (scene.rsa("rsa"), scene.rsa("other"));
    let curve = scene.key("p256", Curve("P-256"));
    let (key, certificate) = (rsa.display().to_string(), scene.path("cert.pem"));
    let words = [
        "req",
        "-x509",
        "-new",
        "-subj",
        "/CN=x",
        "-key",
        &key,
        "-out",
        &certificate,
    ];
    run("openssl", &words);
    let by_certificate = format!("pkcs7:{certificate}");
    let encrypted = scene.encrypt(std::slice::from_ref(&by_certificate));
    assert!(plain(&encrypted, &keys(&rsa)) == Some(scene.layer.clone()));
    assert!(plain(&encrypted, &keys(&other)).is_none());
    assert!(plain(&encrypted, &keys(&curve)).is_none());

    let for_two = format!("jwe:{}", scene.path("p256.pub"));
    let for_three = format!("jwe:{}", scene.path("other.pub"));
    let encrypted = scene.encrypt(&[by_certificate, for_two, for_three]);
    for path in [&rsa, &other, &curve] {
        assert!(
            plain(&encrypted, &keys(path)) == Some(scene.layer.clone()),
            "{path:?}"
        );
    }
    let all = [keys(&other), keys(&curve)].concat_keys();
    assert!(plain(&encrypted, &all) == Some(scene.layer.clone()));
    let third = scene.rsa("third");
    assert!(plain(&encrypted, &keys(&third)).is_none());
}

trait ConcatKeys {
    fn concat_keys(self) -> Vec<PrivateKey>;
}

impl<const N: usize> ConcatKeys for [Vec<PrivateKey>; N] {
    fn concat_keys(self) -> Vec<PrivateKey> {
        self.into_iter().flatten().collect()
    }
}

#[test]
fn what_was_changed_is_noticed_wherever_it_was() {
    let scene = scene!();
    let rsa = scene.rsa("rsa");
    let encrypted = scene.encrypt(&[format!("jwe:{}", scene.path("rsa.pub"))]);
    let keys = keys(&rsa);
    let read = |bytes: &[u8], annotations: &Annotations| -> Result<Vec<u8>, String> {
        let told = |error: Refused| error.to_string();
        let wrapped = Wrapped::of(annotations).map_err(told)?;
        let options = wrapped.open(&keys).map_err(told)?;
        let options = options.ok_or_else(|| "no key".to_owned())?;
        let mut plain = Vec::new();
        let done = Plain::new(bytes, &options).read_to_end(&mut plain);
        done.map(|_| plain).map_err(|error| error.to_string())
    };
    let Encrypted { annotations, bytes } = &encrypted;
    assert_eq!(read(bytes, annotations).as_ref(), Ok(&scene.layer));

    for at in [0, bytes.len() / 2, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(read(&changed, annotations).unwrap_err().contains("HMAC"));
    }
    assert!(
        read(&bytes[..bytes.len() - 1], annotations)
            .unwrap_err()
            .contains("HMAC")
    );
    assert!(read(&[], annotations).unwrap_err().contains("HMAC"));

    let with = |name: &str, value: Option<String>| {
        let mut changed = annotations.clone();
        match value {
            Some(value) => changed.insert(name.to_owned(), value),
            None => changed.remove(name),
        };
        read(bytes, &changed).unwrap_err()
    };
    let jwe = format!("{KEYS}jwe");
    let json = |name: &str| -> serde_json::Value {
        let bytes = BASE64_STANDARD.decode(&annotations[name]).expect("base64");
        serde_json::from_slice(&bytes).expect("JSON")
    };
    let encoded = |value: &serde_json::Value| Some(BASE64_STANDARD.encode(value.to_string()));
    let changed = |name: &str, field: &str, to: &str| {
        let mut value = json(name);
        assert_ne!(value[field], serde_json::Value::Null, "{field}");
        value[field] = to.into();
        with(name, encoded(&value))
    };
    let url = |text: &str| base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(text);
    for (error, expected) in [
        (with(&jwe, None), "has no wrapped key"),
        (
            with(PUBLIC_OPTIONS, None),
            "with the public encryption options",
        ),
        (with(&jwe, Some("***".to_owned())), "malformed"),
        (
            with(&jwe, Some(BASE64_STANDARD.encode("{}"))),
            "a JWE is malformed",
        ),
        (
            with(&jwe, Some(vec!["e30="; 65].join(","))),
            "encrypted for too many keys",
        ),
        (
            with(&jwe, Some("e".repeat(1 << 20))),
            "encrypted for too many keys",
        ),
        (
            with(PUBLIC_OPTIONS, Some("e30=".to_owned())),
            "public encryption options is malformed",
        ),
        (
            changed(PUBLIC_OPTIONS, "cipher", "ROT13"),
            "the cipher \"ROT13\"",
        ),
        (
            changed(PUBLIC_OPTIONS, "hmac", "e30="),
            "public encryption options is malformed",
        ),
        (
            changed(PUBLIC_OPTIONS, "hmac", &BASE64_STANDARD.encode([7; 32])),
            "HMAC",
        ),
        (
            changed(&jwe, "tag", &url("sixteen bytes...")),
            "was modified",
        ),
        (
            changed(&jwe, "ciphertext", &url("other bytes")),
            "was modified",
        ),
        (changed(&jwe, "iv", &url("twelve bytes")), "was modified"),
        (changed(&jwe, "iv", &url("short")), "a JWE is malformed"),
        (
            changed(&jwe, "encrypted_key", &url("another key")),
            "no key",
        ),
        (
            changed(&jwe, "protected", &url(r#"{"alg":"none","enc":"A256GCM"}"#)),
            "a JWE with the key algorithm \"none\"",
        ),
        (
            changed(
                &jwe,
                "protected",
                &url(r#"{"alg":"RSA-OAEP","enc":"A256GCM","x":1}"#),
            ),
            "was modified",
        ),
        (
            changed(
                &jwe,
                "protected",
                &url(r#"{"alg":"RSA-OAEP","enc":"A128CBC-HS256"}"#),
            ),
            "a JWE with the encryption \"A128CBC-HS256\"",
        ),
        (
            changed(
                &jwe,
                "protected",
                &url(r#"{"alg":"RSA-OAEP","enc":"A256GCM","crit":["x"]}"#),
            ),
            "`crit`",
        ),
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
    // Nothing of what is secret is shown.
    let options = Wrapped::of(annotations)
        .unwrap()
        .open(&keys)
        .unwrap()
        .unwrap();
    assert_eq!(
        format!("{options:?} {:?}", keys[0]),
        "Options(secret) PrivateKey(RSA)"
    );
}

#[test]
fn keys_that_cannot_be_used_are_refused_with_the_reason() {
    let scene = scene!();
    let refused = |path: &Path| {
        let pem = fs::read(path).expect("read");
        PrivateKey::all_of(&pem, None)
            .map(|keys| keys.len())
            .map_err(|error| error.to_string())
    };
    let rsa = scene.rsa("rsa");
    let (from, locked) = (rsa.display().to_string(), scene.path("locked.pem"));
    for words in [
        &["pkey", "-aes256"][..],
        &["rsa", "-aes256", "-traditional"],
    ] {
        let rest = ["-in", &from, "-out", &locked, "-passout", "pass:x"];
        run("openssl", &[words, &rest[..]].concat());
        let error = refused(locked.as_ref()).unwrap_err();
        assert!(error.contains("passphrase"), "{error}");
    }
    for path in [
        scene.key("short", Rsa(1024)),
        scene.key("other", LayerKeyKind::Ed25519),
    ] {
        let error = refused(&path).unwrap_err();
        assert!(
            error.contains("key type is not supported"),
            "{path:?} {error}"
        );
    }
    let public = refused(scene.path("rsa.pub").as_ref()).unwrap_err();
    assert_eq!(public, "it contains no private key");
    let two = [
        fs::read(&rsa).expect("read"),
        fs::read(scene.key("p256", Curve("P-256"))).expect("read"),
    ];
    assert_eq!(
        PrivateKey::all_of(&two.concat(), None)
            .expect("two keys")
            .len(),
        2
    );
    // What is malformed may be the key: nothing of it is told.
    let pem = fs::read_to_string(&rsa).expect("read");
    for spoiled in [
        pem.replace('\n', ""),
        pem.replace('\n', "\\n"),
        pem.replace("-----END", "---END"),
    ] {
        let error = PrivateKey::all_of(spoiled.as_bytes(), None).map(|keys| keys.len());
        let told = format!(
            "{error:?} {}",
            error
                .clone()
                .map_or_else(|it| it.to_string(), |_| String::new())
        );
        assert!(told.len() < 60, "{told}");
    }
}
