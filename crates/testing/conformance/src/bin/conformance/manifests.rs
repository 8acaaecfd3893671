//! The static pods.

use serde_json::{Value, json};

/// The command of a container that runs until it gets SIGTERM.
const WAIT: &str = "trap 'exit 0' TERM; while :; do sleep 0.2; done";

/// A pod with an initial container, a server that is ready once it answers, and a second container.
pub(crate) fn web(image: &str, says: &str) -> Value {
    let data = json!([{ "name": "data", "mountPath": "/data" }]);
    pod(
        "web",
        json!({
            "volumes": [{ "name": "data", "emptyDir": {} }],
            "initContainers": [{
                "name": "first", "image": image, "volumeMounts": data,
                "command": ["sh", "-c", format!("echo {says} > /data/index.html")],
            }],
            "containers": [
                {
                    "name": "server", "image": image, "volumeMounts": data,
                    "command": ["sh", "-c", "echo serving; exec busybox httpd -f -p 8080 -h /data"],
                    "readinessProbe": { "httpGet": { "path": "/index.html", "port": 8080 }, "periodSeconds": 1 },
                    "resources": { "limits": { "memory": "64Mi", "cpu": "500m" } },
                },
                {
                    "name": "beside", "image": image,
                    "env": [{ "name": "OF", "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } }],
                    "command": ["sh", "-c", format!("echo of $OF; {WAIT}")],
                },
            ],
        }),
    )
}

/// A pod whose container ends badly at once, again and again.
pub(crate) fn restless(image: &str) -> Value {
    pod_of("restless", image, &["sh", "-c", "exit 3"], &json!({}))
}

/// A pod that is restarted because it says that it is ill.
pub(crate) fn ill(image: &str) -> Value {
    let probe =
        json!({ "exec": { "command": ["false"] }, "periodSeconds": 1, "failureThreshold": 1 });
    let more = json!({ "livenessProbe": probe });
    pod_of("ill", image, &["sh", "-c", WAIT], &more)
}

/// A pod that is done.
pub(crate) fn done(image: &str) -> Value {
    pod(
        "done",
        json!({
            "restartPolicy": "Never",
            "containers": [{ "name": "main", "image": image, "command": ["true"] }],
        }),
    )
}

/// A pod in the host's network, that tells its interfaces.
pub(crate) fn host(image: &str) -> Value {
    pod(
        "host",
        json!({
            "hostNetwork": true,
            "containers": [{
                "name": "main", "image": image,
                "command": ["sh", "-c", format!("readlink /proc/self/ns/net; {WAIT}")],
            }],
        }),
    )
}

/// A pod that asks for what older kubelets do not know, by its name.
pub(crate) fn newer(name: &str, image: &str) -> Value {
    let spec = match name {
        // The pod's container ends well if the sidecar was up first.
        "beside" => {
            let data = json!([{ "name": "data", "mountPath": "/data" }]);
            json!({
                "restartPolicy": "Never",
                "volumes": [{ "name": "data", "emptyDir": {} }],
                "initContainers": [{
                    "name": "sidecar", "image": image, "restartPolicy": "Always", "volumeMounts": data,
                    "command": ["sh", "-c", format!("sleep 1; echo up > /data/up; {WAIT}")],
                    "startupProbe": {
                        "exec": { "command": ["test", "-e", "/data/up"] }, "periodSeconds": 1, "failureThreshold": 60,
                    },
                }],
                "containers": [{
                    "name": "main", "image": image, "volumeMounts": data, "command": ["test", "-e", "/data/up"],
                }],
            })
        }
        "volume" => json!({
            "volumes": [{ "name": "files", "image": { "reference": image, "pullPolicy": "IfNotPresent" } }],
            "containers": [{
                "name": "main", "image": image, "volumeMounts": [{ "name": "files", "mountPath": "/files" }],
                "command": ["sh", "-c", format!(
                    "test -x /files/bin/busybox && echo there; (: > /files/bin/mine) 2>/dev/null || echo read only; {WAIT}"
                )],
            }],
        }),
        _ => json!({
            "hostUsers": false,
            "containers": [{
                "name": "main", "image": image, "command": ["sh", "-c", format!("cat /proc/self/uid_map; {WAIT}")],
            }],
        }),
    };
    pod(name, spec)
}

/// A pod that has a processor for itself.
pub(crate) fn pinned(image: &str) -> Value {
    let amounts = json!({ "cpu": "1", "memory": "64Mi" });
    let more = json!({ "resources": { "limits": amounts, "requests": amounts } });
    pod_of("pinned", image, &["sh", "-c", WAIT], &more)
}

/// A pod of one container.
fn pod_of(name: &str, image: &str, command: &[&str], more: &Value) -> Value {
    let mut main = json!({ "name": "main", "image": image, "command": command });
    for (key, value) in more.as_object().into_iter().flatten() {
        main[key] = value.clone();
    }
    pod(name, json!({ "containers": [main] }))
}

fn pod(name: &str, mut spec: Value) -> Value {
    spec["terminationGracePeriodSeconds"] = 2.into();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default" },
        "spec": spec,
    })
}
