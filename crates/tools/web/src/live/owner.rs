//! Owner of a pod, derived from the labels of Kubernetes controllers: the CRI has no owners.

use std::collections::HashMap;

/// Returns the kind and the name of a pod's owner.
pub(super) fn owner(
    name: &str,
    labels: &HashMap<String, String>,
    annotations: &HashMap<String, String>,
) -> Option<(&'static str, String)> {
    let label = |key: &str| labels.get(key).map(String::as_str);
    // The last part of such a name is generated.
    let stem = name.rsplit_once('-').map(|(stem, _)| stem);
    if let Some(job) = label("batch.kubernetes.io/job-name").or(label("job-name")) {
        return Some(("Job", job.to_owned()));
    }
    if label("statefulset.kubernetes.io/pod-name").is_some() {
        return Some(("StatefulSet", stem?.to_owned()));
    }
    if let Some(hash) = label("pod-template-hash") {
        let stem = stem?;
        let deployment = stem
            .strip_suffix(hash)
            .and_then(|rest| rest.strip_suffix('-'));
        return Some(match deployment {
            Some(deployment) => ("Deployment", deployment.to_owned()),
            None => ("ReplicaSet", stem.to_owned()),
        });
    }
    if label("controller-revision-hash").is_some() && label("pod-template-generation").is_some() {
        return Some(("DaemonSet", stem?.to_owned()));
    }
    let source = annotations.get("kubernetes.io/config.source");
    if source.is_some_and(|source| source != "api") {
        return Some(("Node", "static pods".to_owned()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_known_by_their_marks() {
        let of = |name: &str, labels: &[(&str, &str)], annotations: &[(&str, &str)]| {
            let map = |all: &[(&str, &str)]| {
                let all = all.iter();
                all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                    .collect()
            };
            let (kind, name) = owner(name, &map(labels), &map(annotations))?;
            Some(format!("{kind} {name}"))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            of("web-5d4f-x7k2p", &[("pod-template-hash", "5d4f")], &[]),
            some("Deployment web")
        );
        assert_eq!(
            of("set-x7k2p", &[("pod-template-hash", "5d4f")], &[]),
            some("ReplicaSet set")
        );
        assert_eq!(
            of(
                "db-0",
                &[("statefulset.kubernetes.io/pod-name", "db-0")],
                &[]
            ),
            some("StatefulSet db")
        );
        assert_eq!(of("once-1", &[("job-name", "once")], &[]), some("Job once"));
        let daemon = [
            ("controller-revision-hash", "a"),
            ("pod-template-generation", "1"),
        ];
        assert_eq!(of("log-abcde", &daemon, &[]), some("DaemonSet log"));
        let file = [("kubernetes.io/config.source", "file")];
        assert_eq!(of("etcd-node", &[], &file), some("Node static pods"));
        assert_eq!(of("bare", &[("pod-template-hash", "1")], &[]), None);
        assert_eq!(
            of("alone", &[], &[("kubernetes.io/config.source", "api")]),
            None
        );
    }
}
