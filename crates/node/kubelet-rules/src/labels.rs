//! The kubelet's labels and annotations on sandboxes and containers.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::hash::ContainerHash;
use crate::pod::{Container, LifecycleHandler, Pod};

/// The pod's name.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// The pod's namespace.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// The pod's uid.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// The container's name in the pod.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// The hash of the definition that a container was created from.
pub const HASH: &str = "io.kubernetes.container.hash";
/// The restart count of the instance.
pub const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// The path of the container's termination message.
pub const TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// The policy of the container's termination message.
pub const TERMINATION_MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
/// The preStop hook, as JSON.
pub const PRE_STOP_HANDLER: &str = "io.kubernetes.container.preStopHandler";
/// The container's ports, as JSON.
pub const PORTS: &str = "io.kubernetes.container.ports";
/// The grace period of the pod's deletion.
pub const DELETION_GRACE_PERIOD: &str = "io.kubernetes.pod.deletionGracePeriod";
/// The grace period of the pod.
pub const TERMINATION_GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";

/// Returns the labels of a pod's sandbox: the pod's own labels and its identity.
pub fn sandbox_labels(pod: &Pod) -> BTreeMap<String, String> {
    let mut labels = pod.metadata.labels.clone();
    labels.extend(identity(pod));
    labels
}

/// Returns the labels of a container: its identity.
pub fn container_labels(pod: &Pod, container: &Container) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<_, _> = identity(pod).into();
    labels.insert(CONTAINER_NAME.to_owned(), container.name.clone());
    labels
}

/// Returns the annotations of a container, with the data to stop it if its manifest is gone.
pub fn container_annotations(
    pod: &Pod,
    container: &Container,
    restart_count: u32,
) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::new();
    let mut put = |key: &str, value: String| annotations.insert(key.to_owned(), value);
    put(HASH, ContainerHash::of(container).to_string());
    put(RESTART_COUNT, restart_count.to_string());
    put(
        TERMINATION_MESSAGE_PATH,
        container.termination_message_path.clone(),
    );
    put(
        TERMINATION_MESSAGE_POLICY,
        container.termination_message_policy.as_str().to_owned(),
    );
    if let Some(seconds) = pod.metadata.deletion_grace_period_seconds {
        put(DELETION_GRACE_PERIOD, seconds.to_string());
    }
    if let Some(seconds) = pod.spec.termination_grace_period_seconds {
        put(TERMINATION_GRACE_PERIOD, seconds.to_string());
    }
    if let Some(hook) = &container.lifecycle.pre_stop
        && let Ok(json) = serde_json::to_string(hook)
    {
        put(PRE_STOP_HANDLER, json);
    }
    if !container.ports.is_empty()
        && let Ok(json) = serde_json::to_string(&container.ports)
    {
        put(PORTS, json);
    }
    annotations
}

/// The data in a container's annotations for stopping it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StopRecord {
    /// The grace period of the deletion, else of the pod.
    pub grace: Option<Duration>,
    /// The preStop hook.
    pub pre_stop: Option<LifecycleHandler>,
}

/// Reads the data for stopping a container whose manifest is gone. Unreadable data is skipped,
/// because the container must stop anyway.
pub fn stop_record<'a>(get: impl Fn(&str) -> Option<&'a str>) -> StopRecord {
    let seconds = |key| get(key).and_then(|text| text.parse().ok());
    StopRecord {
        grace: seconds(DELETION_GRACE_PERIOD)
            .or_else(|| seconds(TERMINATION_GRACE_PERIOD))
            .map(Duration::from_secs),
        pre_stop: get(PRE_STOP_HANDLER)
            .and_then(|json| serde_json::from_slice(json.as_bytes()).ok()),
    }
}

fn identity(pod: &Pod) -> [(String, String); 3] {
    let meta = &pod.metadata;
    [
        (POD_NAME.to_owned(), meta.name.clone()),
        (POD_NAMESPACE.to_owned(), meta.namespace.clone()),
        (POD_UID.to_owned(), meta.uid.clone()),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "uid": "u1", "labels": {"app": "x", POD_NAME: "forged"}},
            "spec": {
                "terminationGracePeriodSeconds": 20,
                "containers": [{
                    "name": "c", "image": "i:1",
                    "ports": [{"containerPort": 80, "hostPort": 8080}],
                    "lifecycle": {"preStop": {"exec": {"command": ["/bye"]}}}
                }]
            }
        }))
        .unwrap()
    }

    #[test]
    fn a_pods_own_labels_cannot_lie_about_it() {
        let labels = sandbox_labels(&pod());
        assert_eq!(labels["app"], "x");
        assert_eq!(labels[POD_NAME], "web");
        assert_eq!(labels[POD_NAMESPACE], "default");
        let labels = container_labels(&pod(), &pod().spec.containers[0]);
        assert_eq!(labels.len(), 4);
        assert_eq!(labels[CONTAINER_NAME], "c");
    }

    #[test]
    fn a_container_can_be_stopped_from_its_annotations_alone() {
        let mut pod = pod();
        let container = pod.spec.containers[0].clone();
        let annotations = container_annotations(&pod, &container, 3);
        assert_eq!(annotations[RESTART_COUNT], "3");
        assert_eq!(
            annotations[TERMINATION_MESSAGE_PATH],
            "/dev/termination-log"
        );
        assert_eq!(
            annotations[PORTS],
            r#"[{"hostPort":8080,"containerPort":80,"protocol":"TCP"}]"#
        );
        let record = stop_record(|key| annotations.get(key).map(String::as_str));
        assert_eq!(record.grace, Some(Duration::from_secs(20)));
        assert_eq!(record.pre_stop, container.lifecycle.pre_stop);

        pod.metadata.deletion_grace_period_seconds = Some(5);
        let annotations = container_annotations(&pod, &container, 3);
        let record = stop_record(|key| annotations.get(key).map(String::as_str));
        assert_eq!(record.grace, Some(Duration::from_secs(5)));
        assert_eq!(stop_record(|_| Some("{")), StopRecord::default());
    }
}
