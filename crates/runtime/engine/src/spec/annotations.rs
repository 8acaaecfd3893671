//! Annotations of the specification: those that other runtimes expect, and those that a handler passes on.

use std::collections::{BTreeMap, HashMap};

use orlop_cri_api::v1;
use orlop_image_store::Reference;

use super::input::{ImageFacts, Policy, SpecInput};
use super::pattern::matches;
use super::{BaseSpec, HandlerRules};

/// Returns the annotations of a container.
///
/// The names are those of containerd's CRI service, by which sandboxed runtimes identify the containers of
/// a pod.
pub(super) fn of_container(input: &SpecInput<'_>) -> BTreeMap<String, String> {
    let known = &input.known;
    let mut annotations = defaults(known.handler.rules, known.policy);
    about_pod(
        known.pod_config,
        input.pod.id,
        known.handler.pod_annotations,
        &mut annotations,
    );
    let container = known
        .config
        .metadata
        .as_ref()
        .map_or("", |metadata| metadata.name.as_str());
    passed(
        &known.config.annotations,
        known.handler.container_annotations,
        &mut annotations,
    );
    for (name, value) in [
        ("container-type", "container"),
        ("container-name", container),
        ("image-name", pinned(&known.image)),
    ] {
        annotations.insert(format!("io.kubernetes.cri.{name}"), value.to_owned());
    }
    annotations
}

/// Returns the administrator's annotations: of the base, the node and the runtime; a later one wins.
fn defaults(rules: &HandlerRules, policy: &Policy) -> BTreeMap<String, String> {
    let base = rules.base.as_ref().map(BaseSpec::annotations);
    let mut annotations = base.cloned().unwrap_or_default();
    annotations.extend(policy.default_annotations.clone());
    annotations.extend(rules.default_annotations.clone());
    annotations
}

/// Returns the admitted image, by its digest if a guest pulls it again, so that it gets no other image.
fn pinned<'a>(image: &ImageFacts<'a>) -> &'a str {
    let named: Option<Reference> = image.name.parse().ok();
    let there = named.map(|named| format!("{}@", named.repository()));
    let of_name = |digest: &&String| there.as_ref().is_some_and(|it| digest.starts_with(it));
    let mut digests = image.digests.iter();
    let pinned = digests.clone().find(of_name).or_else(|| digests.next());
    pinned.map_or(image.name, String::as_str)
}

/// Returns the annotations of the pod's own sandbox.
pub fn of_pod(
    pod: &v1::PodSandboxConfig,
    id: &str,
    (patterns, rules): (&[String], &HandlerRules),
    policy: &Policy,
) -> BTreeMap<String, String> {
    let mut annotations = defaults(rules, policy);
    about_pod(pod, id, patterns, &mut annotations);
    for (name, value) in [
        ("container-type", "sandbox"),
        ("sandbox-log-directory", &pod.log_directory),
    ] {
        annotations.insert(format!("io.kubernetes.cri.{name}"), value.to_owned());
    }
    annotations.extend(size_of_pod(pod));
    annotations
}

fn about_pod(
    pod: &v1::PodSandboxConfig,
    id: &str,
    patterns: &[String],
    into: &mut BTreeMap<String, String>,
) {
    passed(&pod.annotations, patterns, into);
    let none = v1::PodSandboxMetadata::default();
    let named = pod.metadata.as_ref().unwrap_or(&none);
    for (name, value) in [
        ("id", id),
        ("namespace", &named.namespace),
        ("uid", &named.uid),
        ("name", &named.name),
    ] {
        into.insert(
            format!("io.kubernetes.cri.sandbox-{name}"),
            value.to_owned(),
        );
    }
}

/// Returns the limits of the whole pod, for the sandboxer. A negative quota is passed too: then the size is
/// in the shares.
fn size_of_pod(pod: &v1::PodSandboxConfig) -> impl Iterator<Item = (String, String)> {
    let limits = pod
        .linux
        .as_ref()
        .and_then(|linux| linux.resources.as_ref());
    let limits = limits.into_iter().flat_map(|limits| {
        [
            ("cpu-period", limits.cpu_period),
            ("cpu-quota", limits.cpu_quota),
            ("cpu-shares", limits.cpu_shares),
            ("memory", limits.memory_limit_in_bytes),
        ]
    });
    limits.map(|(name, value)| {
        let name = format!("io.kubernetes.cri.sandbox-{name}");
        (name, value.to_string())
    })
}

fn passed(
    annotations: &HashMap<String, String>,
    patterns: &[String],
    into: &mut BTreeMap<String, String>,
) {
    for (name, value) in annotations {
        if patterns.iter().any(|pattern| matches(pattern, name)) {
            into.insert(name.clone(), value.clone());
        }
    }
}
