//! Signature policies of a node, as its kubelet and its operator meet them.

use orlop_cri_api::v1::ImageSpec;
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::{ContainerSpec, Registry, Scratch, Signer};

/// A policy for the node, which allows all at first (`policy.json`), and directories for those of
/// namespaces and for stores of signatures: keys of the table `[images]`.
pub fn settings(scratch: &Scratch) -> String {
    let (node, dir) = (scratch.path("policy.json"), scratch.subdir("namespaces"));
    std::fs::write(&node, json!({ "default": accept() }).to_string()).expect("write a policy");
    let stores = scratch.subdir("registries.d");
    format!(
        "signature_policy = {node:?}\nsignature_policy_dir = {dir:?}\nsignature_stores = {stores:?}\n"
    )
}

/// The requirement that any image meets.
pub fn accept() -> Value {
    json!([{ "type": "insecureAcceptAnything" }])
}

/// The requirement that no image meets.
pub fn reject() -> Value {
    json!([{ "type": "reject" }])
}

/// Nothing but what the signer has signed, from the registry of this name.
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

/// Signs what has this digest for a name; the signature is put into the repository of that name.
pub async fn sign(signer: &Signer, registry: &Registry, digest: &str, name: &str) {
    let path = name.split_once('/').expect("a registry").1;
    let repository = path.split(':').next().expect("a repository");
    let signatures = [signer.sign_image(digest, name)];
    registry
        .push_signatures(repository, digest, &signatures)
        .await;
}

/// A container as kubelets ask for it: by the image's id, with the name beside it.
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

/// The kubelet looks at the beginning of the message, and only of one with this code.
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
