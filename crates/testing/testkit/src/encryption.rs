//! Images encrypted with skopeo, and their keys.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::image::{Blob, BuiltImage, Hash};
use crate::machine;
use crate::process::run;

/// Kind of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerKeyKind {
    /// RSA with this many bits.
    Rsa(u32),
    /// Elliptic curve, by a name such as `P-256`.
    Curve(&'static str),
    /// Ed25519, which cannot decrypt layers.
    Ed25519,
}

/// Files of a key pair.
#[derive(Debug, Clone)]
pub struct LayerKey {
    /// Private key, readable by the owner only.
    pub private: PathBuf,
    /// Public key.
    pub public: PathBuf,
}

/// Checks whether this machine can encrypt images.
pub fn can_encrypt() -> Result<(), String> {
    machine::has_program("skopeo")?;
    machine::has_program("openssl")
}

impl LayerKey {
    /// Creates a key pair, `NAME.pem` and `NAME.pub` in a directory.
    pub fn make(dir: &Path, name: &str, kind: LayerKeyKind) -> Self {
        let key = Self {
            private: dir.join(format!("{name}.pem")),
            public: dir.join(format!("{name}.pub")),
        };
        let words = match kind {
            LayerKeyKind::Rsa(bits) => vec![
                "RSA".to_owned(),
                "-pkeyopt".to_owned(),
                format!("rsa_keygen_bits:{bits}"),
            ],
            LayerKeyKind::Curve(curve) => vec![
                "EC".to_owned(),
                "-pkeyopt".to_owned(),
                format!("ec_paramgen_curve:{curve}"),
            ],
            LayerKeyKind::Ed25519 => vec!["ED25519".to_owned()],
        };
        let mut make = Command::new("openssl");
        make.arg("genpkey").arg("-out").arg(&key.private);
        run(make.arg("-algorithm").args(words));
        let mut publish = Command::new("openssl");
        publish.args(["pkey", "-pubout", "-in"]).arg(&key.private);
        run(publish.arg("-out").arg(&key.public));
        key
    }

    /// Returns the recipient argument of skopeo.
    pub fn recipient(&self) -> String {
        format!("jwe:{}", self.public.display())
    }
}

/// Copies and encrypts an image with skopeo; source and target are in skopeo's syntax.
pub fn encrypt(from: &str, to: &str, recipients: &[String]) {
    encrypt_with(&[], from, to, recipients);
}

/// Does the same with environment variables for the keys: `GNUPGHOME`, `OCICRYPT_KEYPROVIDER_CONFIG`.
pub fn encrypt_with(environment: &[(&str, &Path)], from: &str, to: &str, recipients: &[String]) {
    let mut copy = Command::new("skopeo");
    copy.envs(environment.iter().copied());
    copy.args(["copy", "--quiet", "--dest-tls-verify=false"]);
    for recipient in recipients {
        copy.args(["--encryption-key", recipient]);
    }
    run(copy.arg(from).arg(to));
}

/// Encrypts a layer without skopeo, for schemes that it does not support. `wrap` encrypts the private options for a
/// scheme, as `provider.NAME`.
pub fn encrypt_layer(
    image: &BuiltImage,
    layer: usize,
    scheme: &str,
    wrap: impl Fn(&[u8]) -> Vec<u8>,
) -> BuiltImage {
    let (key, nonce) = ([7; 32], [9; 16]);
    let mut image = image.clone();
    let blob = &mut image.layers[layer];
    let plain = std::mem::take(&mut blob.bytes);
    let cipher = ["enc", "-aes-256-ctr", "-K", &hex(&key), "-iv", &hex(&nonce)];
    let bytes = filter(Command::new("openssl").args(cipher), &plain);
    let by_key = format!("hexkey:{}", hex(&key));
    let mac = [
        "dgst", "-sha256", "-binary", "-mac", "HMAC", "-macopt", &by_key,
    ];
    let hmac = filter(Command::new("openssl").args(mac), &bytes);
    let base64 = |bytes: &[u8]| BASE64_STANDARD.encode(bytes);
    let public =
        json!({ "cipher": "AES_256_CTR_HMAC_SHA256", "hmac": base64(&hmac), "cipheroptions": {} });
    let private = json!({ "symkey": base64(&key), "digest": blob.digest,
        "cipheroptions": { "nonce": base64(&nonce) } });
    let wrapped = wrap(private.to_string().as_bytes());
    *blob = Blob::new(
        &format!("{}+encrypted", blob.media_type),
        bytes,
        Hash::Sha256,
    );
    for (name, value) in [
        ("pubopts".to_owned(), public.to_string().into_bytes()),
        (format!("keys.{scheme}"), wrapped),
    ] {
        let name = format!("org.opencontainers.image.enc.{name}");
        blob.annotations.insert(name, base64(&value).into());
    }
    let mut manifest: serde_json::Value = serde_json::from_slice(&image.top.bytes).expect("JSON");
    manifest["layers"][layer] = blob.descriptor();
    let bytes = manifest.to_string().into_bytes();
    image.top = Blob::new(&image.top.media_type, bytes, Hash::Sha256);
    image
}

/// Formats bytes as in openssl's arguments.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Runs a program that must succeed, and returns its output for an input.
pub fn filter(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("run openssl");
    let mut stdin = child.stdin.take().expect("its input");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).expect("write"));
        child.wait_with_output().expect("read")
    });
    assert!(output.status.success(), "{command:?}");
    output.stdout
}
