//! Signatures of images, as cosign makes them, with keys made on the spot.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::image::{Blob, BuiltImage, Hash};
use crate::process::run;
use crate::registry::Registry;

/// A kind of key, and how it signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256 with SHA-256, as cosign's own keys.
    P256,
    /// ECDSA on P-384 with SHA-256.
    P384,
    /// ECDSA on P-384 with SHA-384.
    P384Sha384,
    /// ECDSA on P-521 with SHA-256.
    P521,
    /// Ed25519.
    Ed25519,
    /// RSA of 2048 bits with the padding of PKCS #1 and SHA-256.
    Rsa,
    /// RSA of 2048 bits with the padding PSS and SHA-256.
    RsaPss,
}

/// A key that signs.
#[derive(Debug)]
pub struct Signer {
    kind: KeyKind,
    private: PathBuf,
    public: PathBuf,
}

impl Signer {
    /// Makes a key; its files are put into `dir`.
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

    /// The file with the public key.
    pub fn public_key(&self) -> &Path {
        &self.public
    }

    /// The public key, in PEM.
    pub fn public_pem(&self) -> String {
        std::fs::read_to_string(&self.public).expect("read the public key")
    }

    /// Signs; the signature is in base64.
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

    /// Signs an image by its digest, for a name.
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

/// A signature of an image.
#[derive(Debug, Clone)]
pub struct ImageSignature {
    /// What is signed.
    pub payload: String,
    /// The signature in base64.
    pub signature: String,
    /// The signer's certificate, in PEM.
    pub certificate: Option<String>,
    /// Certificates between that one and an authority's, in PEM.
    pub chain: Option<String>,
    /// What a log says of it, as JSON.
    pub log: Option<String>,
}

/// An attestation of an image, as it was before there were bundles.
#[derive(Debug, Clone)]
pub struct ImageAttestation {
    /// What is signed, with the signature, as JSON.
    pub envelope: String,
    /// The signer's certificate, in PEM.
    pub certificate: Option<String>,
    /// Certificates between that one and an authority's, in PEM.
    pub chain: Option<String>,
    /// What a log says of it, as JSON.
    pub log: Option<String>,
}

/// What cosign signs.
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
    /// Puts signatures where cosign puts those of the manifest with this digest, in place of any
    /// that are there.
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

    /// Puts attestations where cosign put those of the manifest with this digest, in place of any that are there.
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

/// The manifest that cosign makes of signatures.
fn attachment(signatures: &[ImageSignature]) -> BuiltImage {
    let kind = "application/vnd.dev.cosign.simplesigning.v1+json";
    let layers = signatures.iter().map(|one| {
        let beside = [&one.certificate, &one.chain, &one.log];
        layer(kind, &one.payload, &one.signature, beside)
    });
    attached(layers.collect())
}

/// What is signed, annotated with its signature and what is beside it.
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

/// A manifest of these layers.
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
