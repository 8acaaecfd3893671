//! Default values, as an API server sets them.

use serde_json::{Value, json};

/// Sets the defaults of a pod.
pub(super) fn pod(pod: &mut Value) {
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    set(&mut pod["metadata"], "namespace", json!("default"));
    let spec = &mut pod["spec"];
    set(spec, "restartPolicy", json!("Always"));
    set(spec, "dnsPolicy", json!("ClusterFirst"));
    set(spec, "terminationGracePeriodSeconds", json!(30));
    set(spec, "securityContext", json!({}));
    set(spec, "schedulerName", json!("default-scheduler"));
    set(spec, "enableServiceLinks", json!(true));
    // The two priority classes that every cluster has.
    let priority = match spec["priorityClassName"].as_str() {
        Some("system-node-critical") => Some(2_000_001_000),
        Some("system-cluster-critical") => Some(2_000_000_000),
        _ => None,
    };
    if let Some(priority) = priority {
        set(spec, "priority", json!(priority));
    }
    let host_network = spec["hostNetwork"] == true;
    each(&mut spec["initContainers"], |it| {
        container(it, host_network);
    });
    each(&mut spec["containers"], |it| container(it, host_network));
    each(&mut spec["ephemeralContainers"], |it| {
        container(it, host_network);
    });
    each(&mut spec["volumes"], volume);
    requests(&mut spec["resources"]);
    prune(pod);
}

fn container(container: &mut Value, host_network: bool) {
    let image = container["image"].as_str().unwrap_or_default();
    let policy = pull_policy(image);
    set(container, "imagePullPolicy", json!(policy));
    set(
        container,
        "terminationMessagePath",
        json!("/dev/termination-log"),
    );
    set(container, "terminationMessagePolicy", json!("File"));
    set(container, "resources", json!({}));
    each(&mut container["ports"], |port| {
        set(port, "protocol", json!("TCP"));
        if host_network {
            let number = port["containerPort"].clone();
            set(port, "hostPort", number);
        }
    });
    requests(&mut container["resources"]);
    resize_policy(container);
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = object(&mut container[probe]) {
            for (field, value) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                // Kubernetes treats zero as unset.
                if probe[field] == 0 {
                    probe[field] = Value::Null;
                }
                set(probe, field, json!(value));
            }
            handler(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        if container["lifecycle"].is_object()
            && let Some(hook) = object(&mut container["lifecycle"][hook])
        {
            handler(hook);
        }
    }
    each(&mut container["env"], |variable| {
        if let Some(field) =
            object(&mut variable["valueFrom"]).and_then(|it| object(&mut it["fieldRef"]))
        {
            set(field, "apiVersion", json!("v1"));
        }
    });
}

/// A limit without a request is also the request.
fn requests(resources: &mut Value) {
    let Some(limits) = resources["limits"].as_object().cloned() else {
        return;
    };
    for (name, limit) in limits {
        if !resources["requests"].is_object() {
            resources["requests"] = json!({});
        }
        set(&mut resources["requests"], &name, limit);
    }
}

fn resize_policy(container: &mut Value) {
    let mut policies = container["resizePolicy"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for resource in ["cpu", "memory"] {
        let used = ["limits", "requests"]
            .iter()
            .any(|list| !container["resources"][list][resource].is_null());
        let said = policies.iter().any(|it| it["resourceName"] == resource);
        if used && !said {
            policies.push(json!({"resourceName": resource, "restartPolicy": "NotRequired"}));
        }
    }
    if !policies.is_empty() {
        container["resizePolicy"] = policies.into();
    }
}

fn handler(handler: &mut Value) {
    if let Some(get) = object(&mut handler["httpGet"]) {
        set(get, "path", json!("/"));
        set(get, "scheme", json!("HTTP"));
    }
    if let Some(grpc) = object(&mut handler["grpc"]) {
        set(grpc, "service", json!(""));
    }
}

fn volume(volume: &mut Value) {
    let sources = volume.as_object().map_or(0, |fields| {
        fields
            .iter()
            .filter(|(name, value)| *name != "name" && !value.is_null())
            .count()
    });
    if sources == 0 {
        volume["emptyDir"] = json!({});
    }
    const MODE: u32 = 0o644;
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = object(&mut volume[source]) {
            set(source, "defaultMode", json!(MODE));
        }
    }
    if let Some(path) = object(&mut volume["hostPath"]) {
        set(path, "type", json!(""));
    }
    if let Some(image) = object(&mut volume["image"]) {
        let policy = pull_policy(image["reference"].as_str().unwrap_or_default());
        set(image, "pullPolicy", json!(policy));
    }
    if volume["projected"].is_object() {
        each(&mut volume["projected"]["sources"], |source| {
            if let Some(token) = object(&mut source["serviceAccountToken"]) {
                set(token, "expirationSeconds", json!(3600));
            }
        });
    }
}

/// Returns the default pull policy: `Always` for an image whose tag may change.
fn pull_policy(image: &str) -> &'static str {
    if image.contains('@') {
        return "IfNotPresent";
    }
    let last = image.rsplit('/').next().unwrap_or(image);
    match last.rsplit_once(':') {
        None | Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
    }
}

/// Sets a field that is missing or empty.
fn set(object: &mut Value, field: &str, value: Value) {
    let missing = match &object[field] {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    if missing {
        object[field] = value;
    }
}

/// Removes the empty fields that look-ups create, and keys without a value.
fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(prune);
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

fn object(value: &mut Value) -> Option<&mut Value> {
    value.is_object().then_some(value)
}

fn each(list: &mut Value, change: impl Fn(&mut Value)) {
    for item in list.as_array_mut().into_iter().flatten() {
        if item.is_object() {
            change(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_completed_as_an_api_server_does() {
        let mut value = json!({
            "metadata": {"name": "a"},
            "spec": {
                "hostNetwork": true,
                "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}],
                "containers": [{
                    "name": "c", "image": "registry:5000/i",
                    "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "1"}},
                    "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 0},
                    "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
                }]
            }
        });
        pod(&mut value);
        assert_eq!(
            value,
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "a", "namespace": "default"},
                "spec": {
                    "hostNetwork": true, "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
                    "terminationGracePeriodSeconds": 30, "securityContext": {},
                    "schedulerName": "default-scheduler", "enableServiceLinks": true,
                    "volumes": [
                        {"name": "v", "emptyDir": {}},
                        {"name": "s", "secret": {"secretName": "x", "defaultMode": 420}}
                    ],
                    "containers": [{
                        "name": "c", "image": "registry:5000/i", "imagePullPolicy": "Always",
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                        "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
                        "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
                        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
                        "livenessProbe": {
                            "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1,
                            "failureThreshold": 3
                        },
                        "env": [{"name": "N", "valueFrom": {
                            "fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}}]
                    }]
                }
            })
        );
    }

    #[test]
    fn an_image_that_may_change_is_always_pulled() {
        for (image, policy) in [
            ("busybox", "Always"),
            ("busybox:latest", "Always"),
            ("busybox:1", "IfNotPresent"),
            ("host:5000/busybox", "Always"),
            ("busybox@sha256:00", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}
