//! The identity of pods from manifests: their name and uid.

use aws_lc_rs::digest::{Context, SHA256};
use serde_json::{Value, json};

/// The kind of source of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourceKind {
    /// A directory, a file, or the standard input.
    File,
    /// A URL.
    Http,
    /// `orlop apply`.
    Api,
}

impl SourceKind {
    /// Returns the kubelet's word, for `kubernetes.io/config.source`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Http => "http",
            Self::Api => "api",
        }
    }
}

/// The source of a pod.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity<'a> {
    pub(crate) kind: SourceKind,
    /// The file or URL.
    pub(crate) origin: &'a str,
    pub(crate) node: &'a str,
}

/// Sets the name and uid of a pod as the kubelet does for static pods. The node's name is appended
/// to the pod's. The uid is a hash of manifest, node and origin, so a changed manifest is a
/// different pod. Applied pods keep their names.
pub(crate) fn identify(manifest: &mut Value, identity: Identity<'_>) {
    let given = manifest["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let uid = if given.is_empty() {
        sum(manifest, identity)
    } else {
        given
    };
    let is_static = identity.kind != SourceKind::Api;
    if is_static {
        let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
        let name = format!("{name}-{}", identity.node.to_lowercase());
        manifest["metadata"]["name"] = json!(name);
    }
    manifest["metadata"]["uid"] = json!(uid);
    manifest["spec"]["nodeName"] = json!(identity.node);
    let annotations = &mut manifest["metadata"]["annotations"];
    annotations["kubernetes.io/config.source"] = json!(identity.kind.word());
    if is_static {
        annotations["kubernetes.io/config.hash"] = json!(uid);
        let tolerations = &mut manifest["spec"]["tolerations"];
        if !tolerations.is_array() {
            *tolerations = json!([]);
        }
        let everything = json!({"operator": "Exists", "effect": "NoExecute"});
        if let Some(list) = tolerations.as_array_mut()
            && !list.contains(&everything)
        {
            list.push(everything);
        }
    }
}

/// Returns a hash of 128 bits in hexadecimal, like the kubelet's. The kubelet hashes a dump of Go
/// structures, which only Go can reproduce.
fn sum(manifest: &Value, identity: Identity<'_>) -> String {
    let mut hasher = Context::new(&SHA256);
    // The keys of a JSON object are sorted: the same manifest gives the same text.
    hasher.update(manifest.to_string().as_bytes());
    match identity.kind {
        SourceKind::Http => hasher.update(format!("url:{}", identity.origin).as_bytes()),
        SourceKind::File | SourceKind::Api => {
            hasher.update(format!("host:{}", identity.node).as_bytes());
            hasher.update(format!("file:{}", identity.origin).as_bytes());
        }
    }
    let sum = hasher.finish();
    orlop_text::hex::encode(&sum.as_ref()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identified(manifest: Value, kind: SourceKind, origin: &str, node: &str) -> Value {
        let mut manifest = manifest;
        identify(&mut manifest, Identity { kind, origin, node });
        manifest
    }

    #[test]
    fn a_static_pod_is_named_for_its_node_and_known_by_what_it_says() {
        let manifest = json!({"metadata": {"name": "web"}, "spec": {}});
        let here = identified(manifest.clone(), SourceKind::File, "/m/web.yaml", "Node1");
        assert_eq!(here["metadata"]["name"], "web-node1");
        assert_eq!(here["spec"]["nodeName"], "Node1");
        let uid = here["metadata"]["uid"].as_str().unwrap().to_owned();
        assert!(uid.len() == 32 && uid.bytes().all(|b| b.is_ascii_hexdigit()));
        assert_eq!(
            here["metadata"]["annotations"]["kubernetes.io/config.hash"],
            json!(uid)
        );
        assert_eq!(
            here["metadata"]["annotations"]["kubernetes.io/config.source"],
            "file"
        );
        assert_eq!(here["spec"]["tolerations"][0]["effect"], "NoExecute");

        let again = identified(manifest.clone(), SourceKind::File, "/m/web.yaml", "Node1");
        assert_eq!(again, here);
        for other in [
            identified(
                json!({"metadata": {"name": "web"}, "spec": {"x": 1}}),
                SourceKind::File,
                "/m/web.yaml",
                "Node1",
            ),
            identified(manifest.clone(), SourceKind::File, "/m/other.yaml", "Node1"),
            identified(manifest.clone(), SourceKind::File, "/m/web.yaml", "Node2"),
            identified(manifest.clone(), SourceKind::Http, "/m/web.yaml", "Node1"),
        ] {
            assert_ne!(other["metadata"]["uid"], json!(uid));
        }
        let given = json!({"metadata": {"name": "web", "uid": "mine"}, "spec": {}});
        let given = identified(given, SourceKind::File, "/m/web.yaml", "n");
        assert_eq!(given["metadata"]["uid"], "mine");
    }

    #[test]
    fn an_applied_pod_keeps_its_name() {
        let manifest = json!({"metadata": {"name": "web", "uid": "u"}, "spec": {}});
        let pod = identified(manifest, SourceKind::Api, "store", "n");
        assert_eq!(pod["metadata"]["name"], "web");
        assert!(pod["spec"]["tolerations"].is_null());
    }
}
