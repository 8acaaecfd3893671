//! Image signatures in cosign's format, with generated keys.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::image::{Blob, BuiltImage, Hash};
use crate::process::run;
use crate::registry::Registry;

/// Kind of a key with its signature scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256 with SHA-256, as in cosign's own keys.
    P256,
    /// ECDSA on P-384 with SHA-256.
    P384,
    /// ECDSA on P-384 with SHA-384.
    P384Sha384,
    /// ECDSA on P-521 with SHA-256.
    P521,
    /// Ed25519.
    Ed25519,
    /// 2048-bit RSA with PKCS #1 padding and SHA-256.
    Rsa,
    /// 2048-bit RSA with PSS padding and SHA-256.
    RsaPss,
}

/// A signing key.
#[derive(Debug)]
pub struct Signer {
    kind: KeyKind,
    private: PathBuf,
    public: PathBuf,
}

impl Signer {
    /// Creates a key with its files in `dir`.
    pub fn new(dir: &Path, name: &str, kind: KeyKind) -> Self {
        let private = dir.join(format!("{name}.key"));
        let public = dir.join(format!("{name}.pub"));
        let words: &[&str] = match kind {
            KeyKind::P256 => &["EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
            KeyKind::P384 | KeyKind::P384Sha384 => &["EC", "-pkeyopt", "ec_paramgen_curve:P-384"],
            KeyKind::P521 => &["EC", "-pkeyopt", "ec_paramgen_curve:P-521"],
            KeyKind::Ed25519 => &["ED25519"],
            KeyKind::Rsa | KeyKind::RsaPss => &["RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
        };
        let mut make = openssl("genpkey");
        make.arg("-algorithm").args(words).arg("-out").arg(&private);
        run(&mut make);
        let mut show = openssl("pkey");
        show.arg("-in").arg(&private).arg("-pubout");
        run(show.arg("-out").arg(&public));
        Self {
            kind,
            private,
            public,
        }
    }

    /// Returns the file of the public key.
    pub fn public_key(&self) -> &Path {
        &self.public
    }

    /// Returns the public key in PEM.
    pub fn public_pem(&self) -> String {
        std::fs::read_to_string(&self.public).expect("read the public key")
    }

    /// Returns a signature in base64.
    pub fn sign(&self, bytes: &[u8]) -> String {
        let message = self.private.with_extension("message");
        std::fs::write(&message, bytes).expect("write the message");
        let mut command = match self.kind {
            KeyKind::Ed25519 => {
                let mut command = openssl("pkeyutl");
                command
                    .args(["-sign", "-rawin", "-inkey"])
                    .arg(&self.private);
                command.arg("-in");
                command
            }
            kind => {
                let mut command = openssl("dgst");
                let hash = match kind {
                    KeyKind::P384Sha384 => "-sha384",
                    _ => "-sha256",
                };
                command.args([hash, "-sign"]).arg(&self.private);
                if kind == KeyKind::RsaPss {
                    command.args(["-sigopt", "rsa_padding_mode:pss"]);
                    command.args(["-sigopt", "rsa_pss_saltlen:32"]);
                }
                command
            }
        };
        BASE64_STANDARD.encode(run(command.arg(&message)))
    }

    /// Signs an image by digest, for a name.
    pub fn sign_image(&self, digest: &str, reference: &str) -> ImageSignature {
        let payload = payload(digest, reference);
        ImageSignature {
            signature: self.sign(payload.as_bytes()),
            payload,
            certificate: None,
            chain: None,
            log: None,
        }
    }
}

/// Signature of an image.
#[derive(Debug, Clone)]
pub struct ImageSignature {
    /// Signed payload.
    pub payload: String,
    /// Signature in base64.
    pub signature: String,
    /// Certificate of the signer in PEM.
    pub certificate: Option<String>,
    /// Intermediate certificates in PEM.
    pub chain: Option<String>,
    /// Transparency log entry as JSON.
    pub log: Option<String>,
}

/// Attestation of an image, in the format before bundles.
#[derive(Debug, Clone)]
pub struct ImageAttestation {
    /// Signed statement with its signature, as JSON.
    pub envelope: String,
    /// Certificate of the signer in PEM.
    pub certificate: Option<String>,
    /// Intermediate certificates in PEM.
    pub chain: Option<String>,
    /// Transparency log entry as JSON.
    pub log: Option<String>,
}

/// Returns the payload that cosign signs.
pub fn payload(digest: &str, reference: &str) -> String {
    json!({
        "critical": {
            "identity": { "docker-reference": reference },
            "image": { "docker-manifest-digest": digest },
            "type": "cosign container image signature",
        },
        "optional": null,
    })
    .to_string()
}

impl Registry {
    /// Pushes signatures to the tag that cosign uses for this digest, replacing existing ones.
    pub async fn push_signatures(
        &self,
        repository: &str,
        digest: &str,
        signatures: &[ImageSignature],
    ) {
        let tag = format!("{}.sig", digest.replacen(':', "-", 1));
        let name = format!("{repository}:{tag}");
        self.push(&attachment(signatures), &name).await;
    }

    /// Pushes attestations to the tag that cosign used for this digest, replacing existing ones.
    pub async fn push_attestations(
        &self,
        repository: &str,
        digest: &str,
        attestations: &[ImageAttestation],
    ) {
        let tag = format!("{}.att", digest.replacen(':', "-", 1));
        let kind = "application/vnd.dsse.envelope.v1+json";
        let layers = attestations.iter().map(|one| {
            let beside = [&one.certificate, &one.chain, &one.log];
            layer(kind, &one.envelope, "", beside)
        });
        let name = format!("{repository}:{tag}");
        self.push(&attached(layers.collect()), &name).await;
    }
}

/// Returns cosign's manifest of signatures.
fn attachment(signatures: &[ImageSignature]) -> BuiltImage {
    let kind = "application/vnd.dev.cosign.simplesigning.v1+json";
    let layers = signatures.iter().map(|one| {
        let beside = [&one.certificate, &one.chain, &one.log];
        layer(kind, &one.payload, &one.signature, beside)
    });
    attached(layers.collect())
}

/// Returns the signed payload with annotations for its signature, certificates and log entry.
fn layer(kind: &str, signed: &str, signature: &str, beside: [&Option<String>; 3]) -> Blob {
    let mut layer = Blob::new(kind, signed.into(), Hash::Sha256);
    let key = "dev.cosignproject.cosign/signature".to_owned();
    layer.annotations.insert(key, signature.into());
    for (name, value) in ["certificate", "chain", "bundle"].into_iter().zip(beside) {
        if let Some(value) = value {
            let key = format!("dev.sigstore.cosign/{name}");
            layer.annotations.insert(key, value.clone().into());
        }
    }
    layer
}

/// Returns a manifest of these layers.
fn attached(layers: Vec<Blob>) -> BuiltImage {
    let config = json!({ "architecture": "", "os": "", "config": {}, "rootfs": { "type": "layers", "diff_ids": [] } });
    let config = Blob::json("application/vnd.oci.image.config.v1+json", &config);
    BuiltImage::of_blobs(config, layers, json!({}))
}

fn openssl(command: &str) -> Command {
    let mut words = Command::new("openssl");
    words.arg(command).stdin(Stdio::null());
    words
}
