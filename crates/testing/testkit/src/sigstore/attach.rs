//! Referrers: artifacts attached to an image in a registry (OCI distribution 1.1).

use serde_json::{Value, json};

use crate::Registry;
use crate::image::{Blob, BuiltImage, Hash};

/// An artifact attached to an image.
#[derive(Debug, Clone)]
pub struct Referrer {
    /// Artifact type.
    pub artifact_type: String,
    /// Content of its single layer.
    pub layer: Vec<u8>,
    /// Annotations in lists of referrers.
    pub annotations: Value,
}

impl Referrer {
    /// Creates the referrer for a bundle, as cosign does.
    pub fn bundle(bundle: &Value, predicate_type: &str) -> Self {
        Self {
            artifact_type: "application/vnd.dev.sigstore.bundle.v0.3+json".to_owned(),
            layer: bundle.to_string().into_bytes(),
            annotations: json!({
                "dev.sigstore.bundle.content": "dsse-envelope",
                "dev.sigstore.bundle.predicateType": predicate_type,
            }),
        }
    }

    fn built(&self, subject: &Value) -> BuiltImage {
        let layer = Blob::new(&self.artifact_type, self.layer.clone(), Hash::Sha256);
        let more = json!({
            "artifactType": self.artifact_type,
            "subject": subject,
            "annotations": self.annotations,
        });
        BuiltImage::of_blobs(Blob::empty(), vec![layer], more)
    }
}

impl Registry {
    /// Attaches artifacts to a digest, and returns their list as served by the referrers API. This registry lacks that
    /// API, so clients find them only after [`Registry::list_referrers`].
    pub async fn attach(&self, repository: &str, digest: &str, referrers: &[Referrer]) -> Value {
        let subject = json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": digest,
            "size": 1,
        });
        let mut list = Vec::new();
        for referrer in referrers {
            let built = referrer.built(&subject);
            let name = format!("{repository}:x{}", &built.digest()[7..]);
            self.push(&built, &name).await;
            let mut descriptor = built.top.descriptor();
            descriptor["artifactType"] = referrer.artifact_type.clone().into();
            descriptor["annotations"] = referrer.annotations.clone();
            list.push(descriptor);
        }
        index(&list)
    }

    /// Pushes a list of referrers to the tag that clients use without the API.
    pub async fn list_referrers(&self, repository: &str, digest: &str, list: &Value) {
        let kind = "application/vnd.oci.image.index.v1+json";
        let image = BuiltImage::beneath(Blob::json(kind, list), Blob::empty(), Vec::new());
        let tag = digest.replacen(':', "-", 1);
        self.push(&image, &format!("{repository}:{tag}")).await;
    }
}

fn index(list: &[Value]) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": list,
    })
}
