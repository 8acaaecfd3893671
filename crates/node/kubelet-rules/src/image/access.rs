//! Access to images on the node. Records of the credentials that pulled an image keep private
//! images from other pods.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The kind of a record file, as the kubelet writes it: both can use each other's records.
const KIND: &str = "ImagePulledRecord";
const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// From this number of secrets on, secrets that only matched are not recorded.
const MANY: usize = 100;

/// When credentials are verified again (`imagePullCredentialsVerificationPolicy`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CredentialPolicy {
    /// Never.
    NeverVerify,
    /// For images that were pulled on this node; every pod may use images that came otherwise.
    #[default]
    NeverVerifyPreloadedImages,
    /// For all images except these (`preloadedImagesVerificationAllowlist`).
    NeverVerifyAllowlistedImages(Allowlist),
    /// For all images.
    AlwaysVerify,
}

impl CredentialPolicy {
    /// Whether a pod must prove that it may use an image.
    fn asks(&self, image: &str, pulled_here: bool) -> bool {
        match self {
            Self::NeverVerify => false,
            Self::NeverVerifyPreloadedImages => pulled_here,
            Self::NeverVerifyAllowlistedImages(list) => !list.has(image),
            Self::AlwaysVerify => true,
        }
    }
}

/// A list of images by name, without tags, or by path prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowlist {
    names: Vec<String>,
    beneath: Vec<String>,
}

impl Allowlist {
    /// Parses patterns: `registry.example/team/app`, `registry.example/team/*`.
    pub fn read(patterns: &[String]) -> Result<Self, String> {
        let mut list = Self::default();
        for pattern in patterns {
            let wrong = |why: &str| Err(format!("the pattern {pattern:?} {why}"));
            if pattern.trim() != pattern || pattern.is_empty() {
                return wrong("is empty, or begins or ends with white space");
            }
            match pattern.strip_suffix('*').filter(|it| it.ends_with('/')) {
                Some("/") => return wrong("has no registry"),
                Some(path) if !path.contains('*') => list.beneath.push(path.to_owned()),
                None if !pattern.contains('*') => {
                    if bare_name(pattern) != pattern {
                        return wrong("must not have a tag or a digest");
                    }
                    if super::with_default_tag(pattern).is_err() {
                        return wrong("is not an image name");
                    }
                    list.names.push(pattern.clone());
                }
                _ => return wrong("may have a * only at its end, after a /"),
            }
        }
        Ok(list)
    }

    fn has(&self, image: &str) -> bool {
        let name = bare_name(image);
        self.names.iter().any(|it| it == name)
            || self.beneath.iter().any(|path| name.starts_with(path))
    }
}

/// Returns an image's name without its tag and digest.
pub fn bare_name(image: &str) -> &str {
    let named = image.split_once('@').map_or(image, |(named, _)| named);
    let last = named.rfind('/').map_or(0, |at| at + 1);
    match named[last..].find(':') {
        Some(at) => &named[..last + at],
        None => named,
    }
}

/// A pull secret that may pull an image: its identity and a hash of its credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretRecord {
    /// Its uid; manifests rarely have one.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The hash of its credentials; empty if there is none.
    pub credential_hash: String,
}

impl SecretRecord {
    fn is_same_object(&self, other: &Self) -> bool {
        (&self.uid, &self.namespace, &self.name) == (&other.uid, &other.namespace, &other.name)
    }
}

/// The pods that may use an image, by one of its names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Access {
    /// Pods with one of these secrets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kubernetes_secrets: Vec<SecretRecord>,
    /// Pods of these service accounts. They exist only in a cluster; the kubelet's entries are
    /// preserved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kubernetes_service_accounts: Vec<serde_json::Value>,
    /// Every pod of the node: the image was pulled without credentials, or with the node's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub node_pods_accessible: bool,
}

impl Access {
    /// Allows every pod of the node.
    pub fn of_node() -> Self {
        Self {
            node_pods_accessible: true,
            ..Self::default()
        }
    }

    /// Allows pods that have this secret.
    pub fn of_secret(secret: SecretRecord) -> Self {
        Self {
            kubernetes_secrets: vec![secret],
            ..Self::default()
        }
    }
}

/// The record of an image that was pulled on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PulledRecord {
    kind: String,
    api_version: String,
    /// When it was written.
    pub last_updated_time: String,
    /// The image's id.
    pub image_ref: String,
    /// The pods that may use it, by the name that was pulled, without tag and digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credential_mapping: BTreeMap<String, Access>,
}

impl PulledRecord {
    /// Creates a record that allows no pod.
    pub fn new(image_ref: &str) -> Self {
        Self {
            kind: KIND.to_owned(),
            api_version: API_VERSION.to_owned(),
            last_updated_time: String::new(),
            image_ref: image_ref.to_owned(),
            credential_mapping: BTreeMap::new(),
        }
    }

    /// Whether the record is valid and about this image.
    pub fn is_of(&self, image_ref: &str) -> bool {
        self.kind == KIND && self.image_ref == image_ref
    }

    /// Allows more pods to use the image; returns whether the record has changed.
    pub fn allow(&mut self, image: &str, access: Access) -> bool {
        let name = bare_name(image);
        if access == Access::default() {
            return false;
        }
        let Some(known) = self.credential_mapping.get_mut(name) else {
            self.credential_mapping.insert(name.to_owned(), access);
            return true;
        };
        if known.node_pods_accessible {
            return false;
        }
        if access.node_pods_accessible {
            *known = Access::of_node();
            return true;
        }
        let mut changed = false;
        for secret in access.kubernetes_secrets {
            let same = known
                .kubernetes_secrets
                .iter_mut()
                .find(|it| it.is_same_object(&secret));
            match same {
                Some(same) if *same == secret => {}
                Some(same) => {
                    *same = secret;
                    changed = true;
                }
                None => {
                    known.kubernetes_secrets.push(secret);
                    changed = true;
                }
            }
        }
        known
            .kubernetes_secrets
            .sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        changed
    }
}

/// Whether a pod may use an image that is present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Yes: the policy requires no proof.
    Policy,
    /// Yes: a record allows it, and this secret should be added to the record.
    Record(Option<SecretRecord>),
    /// The pod must prove that it can pull the image.
    Prove,
}

/// Decides whether a pod may use an image by its name in the manifest. `in_pull` means that a pull
/// is in progress, or was interrupted by a crash. `secrets` are the pod's own for this image.
pub fn may_use(
    policy: &CredentialPolicy,
    image: &str,
    record: Option<&PulledRecord>,
    in_pull: bool,
    secrets: &[SecretRecord],
) -> Verdict {
    if !policy.asks(image, record.is_some() || in_pull) {
        return Verdict::Policy;
    }
    let known = record.and_then(|it| it.credential_mapping.get(bare_name(image)));
    let Some(known) = known else {
        return Verdict::Prove;
    };
    if known.node_pods_accessible {
        return Verdict::Record(None);
    }
    let room = known.kubernetes_secrets.len() < MANY;
    for secret in secrets {
        for cached in &known.kubernetes_secrets {
            let same_object = cached.is_same_object(secret);
            let same_sum = !cached.credential_hash.is_empty()
                && cached.credential_hash == secret.credential_hash;
            if same_sum {
                let news = (!same_object && room).then(|| secret.clone());
                return Verdict::Record(news);
            }
            // The secret that pulled the image, with new credentials. Without a uid, it may be
            // another secret with the same name.
            if same_object && !secret.uid.is_empty() && room {
                return Verdict::Record(Some(secret.clone()));
            }
        }
    }
    Verdict::Prove
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(uid: &str, name: &str, hash: &str) -> SecretRecord {
        SecretRecord {
            uid: uid.to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            credential_hash: hash.to_owned(),
        }
    }

    #[test]
    fn names_without_tags() {
        for (image, name) in [
            ("busybox", "busybox"),
            ("busybox:1", "busybox"),
            ("r.example:5000/a/b", "r.example:5000/a/b"),
            ("r.example:5000/a/b:1@sha256:00", "r.example:5000/a/b"),
            ("a@sha256:00", "a"),
        ] {
            assert_eq!(bare_name(image), name);
        }
    }

    #[test]
    fn patterns_of_the_allowlist() {
        let read = |pattern: &str| Allowlist::read(&[pattern.to_owned()]);
        for wrong in [
            "",
            " a",
            "a:1",
            "a@sha256:00",
            "*",
            "/*",
            "a*",
            "r/*/b",
            "r/*/*",
            "A",
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        for (pattern, image, has) in [
            ("r.example/a", "r.example/a:1", true),
            ("r.example/a", "r.example/a@sha256:00", true),
            ("r.example/a", "r.example/ab", false),
            ("r.example/a", "r.example/a/b", false),
            ("r.example/*", "r.example/a/b:2", true),
            ("r.example/*", "r.example:5000/a", false),
            ("r.example/t/*", "r.example/team", false),
            ("busybox", "busybox", true),
        ] {
            assert_eq!(read(pattern).unwrap().has(image), has, "{pattern} {image}");
        }
    }

    #[test]
    fn who_may_use_what_is_here() {
        use CredentialPolicy::{
            AlwaysVerify, NeverVerify, NeverVerifyAllowlistedImages, NeverVerifyPreloadedImages,
        };
        let listed = || NeverVerifyAllowlistedImages(Allowlist::read(&["r/*".to_owned()]).unwrap());
        let record = |access: Access| {
            let mut record = PulledRecord::new("id");
            record.allow("r/a:1", access);
            record
        };
        let by = |uid: &str, hash: &str| record(Access::of_secret(secret(uid, "s", hash)));
        let empty = PulledRecord::new("id");
        let news = |secret: SecretRecord| Verdict::Record(Some(secret));
        let rows = [
            // policy, record, pull in progress, the pod's secrets → verdict
            (
                NeverVerify,
                Some(empty.clone()),
                true,
                vec![],
                Verdict::Policy,
            ),
            (
                NeverVerifyPreloadedImages,
                None,
                false,
                vec![],
                Verdict::Policy,
            ),
            (
                NeverVerifyPreloadedImages,
                None,
                true,
                vec![],
                Verdict::Prove,
            ),
            (
                NeverVerifyPreloadedImages,
                Some(empty.clone()),
                false,
                vec![],
                Verdict::Prove,
            ),
            (AlwaysVerify, None, false, vec![], Verdict::Prove),
            (listed(), None, false, vec![], Verdict::Policy),
            (listed(), Some(by("u", "h")), true, vec![], Verdict::Policy),
            (
                AlwaysVerify,
                Some(record(Access::of_node())),
                false,
                vec![],
                Verdict::Record(None),
            ),
            (
                AlwaysVerify,
                Some(by("u", "h")),
                false,
                vec![],
                Verdict::Prove,
            ),
            (
                AlwaysVerify,
                Some(by("u", "h")),
                false,
                vec![secret("u", "s", "h")],
                Verdict::Record(None),
            ),
            // Another secret with the same credentials is recorded.
            (
                AlwaysVerify,
                Some(by("u", "h")),
                false,
                vec![secret("v", "t", "h")],
                news(secret("v", "t", "h")),
            ),
            // The same secret with new credentials.
            (
                AlwaysVerify,
                Some(by("u", "h")),
                false,
                vec![secret("u", "s", "new")],
                news(secret("u", "s", "new")),
            ),
            (
                AlwaysVerify,
                Some(by("", "h")),
                false,
                vec![secret("", "s", "new")],
                Verdict::Prove,
            ),
            (
                AlwaysVerify,
                Some(by("u", "h")),
                false,
                vec![secret("v", "s", "new")],
                Verdict::Prove,
            ),
            // The credentials are unknown.
            (
                AlwaysVerify,
                Some(by("u", "")),
                false,
                vec![secret("v", "t", "")],
                Verdict::Prove,
            ),
        ];
        for (policy, record, in_pull, secrets, verdict) in rows {
            let got = may_use(&policy, "r/a:2", record.as_ref(), in_pull, &secrets);
            assert_eq!(got, verdict, "{policy:?} {record:?} {secrets:?}");
        }
        // A record is about one name: it does not apply to another name of the image.
        let record = record(Access::of_node());
        assert_eq!(
            may_use(&AlwaysVerify, "r/b:1", Some(&record), false, &[]),
            Verdict::Prove
        );
    }

    #[test]
    fn full_records_take_no_more_that_merely_match() {
        let mut record = PulledRecord::new("id");
        for n in 0..MANY {
            let one = secret(&n.to_string(), "s", "h");
            assert!(record.allow("a", Access::of_secret(one)));
        }
        let other = [secret("x", "s", "h")];
        let policy = CredentialPolicy::AlwaysVerify;
        assert_eq!(
            may_use(&policy, "a", Some(&record), false, &other),
            Verdict::Record(None)
        );
    }

    #[test]
    fn records_are_merged_and_written_as_the_kubelet_does() {
        let mut record = PulledRecord::new("sha256:1");
        assert!(record.allow("r/a:1", Access::of_secret(secret("u", "s", "h"))));
        assert!(!record.allow("r/a:2", Access::of_secret(secret("u", "s", "h"))));
        assert!(record.allow("r/a:2", Access::of_secret(secret("u", "s", "i"))));
        assert!(!record.allow("r/a", Access::default()));
        assert!(record.allow("r/a", Access::of_secret(secret("u", "a", "j"))));
        "2024-10-21T12:26:40Z".clone_into(&mut record.last_updated_time);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(
            text,
            r#"{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":"2024-10-21T12:26:40Z","imageRef":"sha256:1","credentialMapping":{"r/a":{"kubernetesSecrets":[{"uid":"u","namespace":"default","name":"a","credentialHash":"j"},{"uid":"u","namespace":"default","name":"s","credentialHash":"i"}]}}}"#
        );
        assert!(record.allow("r/a", Access::of_node()));
        assert!(!record.allow("r/a", Access::of_secret(secret("u", "s", "h"))));
        assert!(
            record.credential_mapping["r/a"]
                .kubernetes_secrets
                .is_empty()
        );
        let older: PulledRecord = serde_json::from_str(
            r#"{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1alpha1","lastUpdatedTime":"2024-10-21T12:26:40Z","imageRef":"x","credentialMapping":{"a":{"kubernetesServiceAccounts":[{"uid":"u","namespace":"n","name":"s"}]}}}"#,
        )
        .unwrap();
        assert!(older.is_of("x") && !older.is_of("y"));
        assert_eq!(
            older.credential_mapping["a"]
                .kubernetes_service_accounts
                .len(),
            1
        );
    }
}
