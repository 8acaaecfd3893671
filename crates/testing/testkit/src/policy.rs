//! Signature policies of a node for tests.

use orlop_cri_api::v1::ImageSpec;
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::{ContainerSpec, Registry, Scratch, Signer};

/// Writes a policy for the node that allows everything (`policy.json`), and creates directories for namespace policies
/// and signature stores. Returns the keys of the table `[images]`.
pub fn settings(scratch: &Scratch) -> String {
    let (node, dir) = (scratch.path("policy.json"), scratch.subdir("namespaces"));
    std::fs::write(&node, json!({ "default": accept() }).to_string()).expect("write a policy");
    let stores = scratch.subdir("registries.d");
    format!(
        "signature_policy = {node:?}\nsignature_policy_dir = {dir:?}\nsignature_stores = {stores:?}\n"
    )
}

/// Returns a requirement that accepts every image.
pub fn accept() -> Value {
    json!([{ "type": "insecureAcceptAnything" }])
}

/// Returns a requirement that rejects every image.
pub fn reject() -> Value {
    json!([{ "type": "reject" }])
}

/// Returns a policy that only accepts images of the signer, from the registry of this name.
pub fn demanding(signer: &Signer, host: &str, identity: &str) -> Value {
    json!({
        "default": reject(),
        "transports": { "docker": { host: [{
            "type": "sigstoreSigned",
            "keyPath": signer.public_key(),
            "signedIdentity": { "type": identity },
        }] } },
    })
}

/// Signs a digest for a name, and pushes the signature to the repository of that name.
pub async fn sign(signer: &Signer, registry: &Registry, digest: &str, name: &str) {
    let path = name.split_once('/').expect("a registry").1;
    let repository = path.split(':').next().expect("a repository");
    let signatures = [signer.sign_image(digest, name)];
    registry
        .push_signatures(repository, digest, &signatures)
        .await;
}

/// Describes a container as the kubelet requests it: by image ID, and also by name.
pub fn by_id(container: &str, id: &str, name: &str) -> ContainerSpec {
    let asked = ImageSpec {
        image: id.to_owned(),
        user_specified_image: name.to_owned(),
        ..ImageSpec::default()
    };
    ContainerSpec::new(container, id)
        .shell("true")
        .with(move |config| config.image = Some(asked))
}

/// Asserts that a call is refused. The kubelet checks this code and the start of the message.
#[track_caller]
pub fn assert_refused<T: std::fmt::Debug>(answer: Result<T, Status>, because: &str) {
    let status = answer.expect_err("it must not be allowed");
    assert_eq!(status.code(), Code::Unknown, "{status}");
    let message = status.message();
    assert!(
        message.starts_with("SignatureValidationFailed: "),
        "{message}"
    );
    assert!(message.contains(because), "{message}");
}
