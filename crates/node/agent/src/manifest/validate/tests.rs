//! One row for each rule: a change to a valid pod, and the field that the error names.

use serde_json::json;

use super::*;

fn good() -> Value {
    json!({
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{
                "name": "c", "image": "i",
                "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "livenessProbe": {"tcpSocket": {"port": 80}, "successThreshold": 1}
            }]
        }
    })
}

/// Sets the field at a JSON pointer.
fn with(pointer: &str, value: Value) -> Value {
    let mut pod = good();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = pod.pointer_mut(parent).unwrap();
    match parent {
        Value::Array(items) => items.push(value),
        parent => parent[key] = value,
    }
    pod
}

fn errors(pod: &Value) -> Vec<(String, String)> {
    super::pod(pod).errors
}

#[test]
fn a_good_pod_is_good() {
    assert_eq!(errors(&good()), []);
}

#[test]
fn each_rule_names_its_field() {
    const C: &str = "/spec/containers/0";
    let second = json!({"name": "c", "image": "i"});
    let second_port = json!({"name": "d", "image": "i", "ports": [{"containerPort": 1,
        "hostPort": 8080, "protocol": "TCP"}]});
    let rows = [
        ("/metadata/name".to_owned(), json!("A_b"), "metadata.name"),
        ("/metadata/name".to_owned(), json!(""), "metadata.name"),
        (
            "/metadata/namespace".to_owned(),
            json!("a.b"),
            "metadata.namespace",
        ),
        (
            "/metadata/labels".to_owned(),
            json!({"a b": "c"}),
            "metadata.labels[a b]",
        ),
        (
            "/metadata/labels".to_owned(),
            json!({"a": "b c"}),
            "metadata.labels[a]",
        ),
        (
            "/metadata/annotations".to_owned(),
            json!({"/a": ""}),
            "metadata.annotations[/a]",
        ),
        ("/spec/containers".to_owned(), json!([]), "spec.containers"),
        (
            "/spec/containers/-".to_owned(),
            second,
            "spec.containers[1].name",
        ),
        (
            "/spec/containers/-".to_owned(),
            second_port,
            "spec.containers[1].ports[0].hostPort",
        ),
        (
            "/spec/restartPolicy".to_owned(),
            json!("Sometimes"),
            "spec.restartPolicy",
        ),
        (
            "/spec/terminationGracePeriodSeconds".to_owned(),
            json!(-1),
            "spec.terminationGracePeriodSeconds",
        ),
        (
            "/spec/activeDeadlineSeconds".to_owned(),
            json!(0),
            "spec.activeDeadlineSeconds",
        ),
        (
            "/spec/dnsPolicy".to_owned(),
            json!("None"),
            "spec.dnsConfig.nameservers",
        ),
        (
            "/spec/hostAliases".to_owned(),
            json!([{"ip": "x"}]),
            "spec.hostAliases[0].ip",
        ),
        ("/spec/hostname".to_owned(), json!("a.b"), "spec.hostname"),
        (
            "/spec/hostnameOverride".to_owned(),
            json!("a_b"),
            "spec.hostnameOverride",
        ),
        (
            "/spec/hostnameOverride".to_owned(),
            json!("a.".repeat(32) + "b"),
            "spec.hostnameOverride",
        ),
        (
            "/spec/hostNetwork".to_owned(),
            json!(true),
            "spec.containers[0].ports[0].hostPort",
        ),
        (
            "/spec/os".to_owned(),
            json!({"name": "windows"}),
            "spec.os.name",
        ),
        (
            "/spec/resourceClaims".to_owned(),
            json!([{}]),
            "spec.resourceClaims",
        ),
        (
            "/spec/securityContext".to_owned(),
            json!({"runAsUser": -5}),
            "spec.securityContext.runAsUser",
        ),
        (
            "/spec/securityContext".to_owned(),
            json!({"sysctls": [{"name": "a b"}]}),
            "spec.securityContext.sysctls[0].name",
        ),
        (
            "/spec/securityContext".to_owned(),
            json!({"seccompProfile": {"type": "Localhost"}}),
            "spec.securityContext.seccompProfile.localhostProfile",
        ),
        (
            "/spec/volumes/-".to_owned(),
            json!({"name": "v", "emptyDir": {}}),
            "spec.volumes[1].name",
        ),
        (
            "/spec/volumes/-".to_owned(),
            json!({"name": "w", "emptyDir": {}, "hostPath": {"path": "/"}}),
            "spec.volumes[1]",
        ),
        (
            "/spec/volumes/-".to_owned(),
            json!({"name": "w", "persistentVolumeClaim": {}}),
            "spec.volumes[1].persistentVolumeClaim",
        ),
        (
            "/spec/volumes/-".to_owned(),
            json!({"name": "w", "hostPath": {"path": "/a/../b"}}),
            "spec.volumes[1].hostPath.path",
        ),
        (
            "/spec/volumes/-".to_owned(),
            json!({"name": "w", "hostPath": {"path": "/a", "type": "X"}}),
            "spec.volumes[1].hostPath.type",
        ),
        (
            "/spec/volumes/-".to_owned(),
            json!({"name": "w", "configMap": {"name": "m", "items": [{"key": "k", "path": "../x"}]}}),
            "spec.volumes[1].configMap.items[0].path",
        ),
        (
            "/spec/volumes/-".to_owned(),
            json!({"name": "w", "secret": {"secretName": "s", "defaultMode": 512}}),
            "spec.volumes[1].secret.defaultMode",
        ),
        (
            "/spec/volumes/-".to_owned(),
            json!({"name": "w", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
            "spec.volumes[1].projected.sources[0].serviceAccountToken",
        ),
        (
            "/spec/volumes/-".to_owned(),
            json!({"name": "w", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "status.podIP"}}]}}),
            "spec.volumes[1].downwardAPI.items[0].fieldRef.fieldPath",
        ),
        (format!("{C}/image"), json!(""), "spec.containers[0].image"),
        (
            format!("{C}/image"),
            json!("i "),
            "spec.containers[0].image",
        ),
        (
            format!("{C}/imagePullPolicy"),
            json!("Maybe"),
            "spec.containers[0].imagePullPolicy",
        ),
        (
            format!("{C}/ports/0/containerPort"),
            json!(70000),
            "spec.containers[0].ports[0].containerPort",
        ),
        (
            format!("{C}/ports/0/protocol"),
            json!("ICMP"),
            "spec.containers[0].ports[0].protocol",
        ),
        (
            format!("{C}/ports/0/name"),
            json!("80"),
            "spec.containers[0].ports[0].name",
        ),
        (
            format!("{C}/ports/0/hostIP"),
            json!("here"),
            "spec.containers[0].ports[0].hostIP",
        ),
        (
            format!("{C}/env"),
            json!([{"name": "A=B"}]),
            "spec.containers[0].env[0].name",
        ),
        (
            format!("{C}/env"),
            json!([{"name": "A", "valueFrom": {}}]),
            "spec.containers[0].env[0].valueFrom",
        ),
        (
            format!("{C}/env"),
            json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]),
            "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath",
        ),
        (
            format!("{C}/env"),
            json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]),
            "spec.containers[0].env[0].valueFrom.secretKeyRef.key",
        ),
        (
            format!("{C}/envFrom"),
            json!([{}]),
            "spec.containers[0].envFrom[0]",
        ),
        (
            format!("{C}/volumeMounts/0/name"),
            json!("w"),
            "spec.containers[0].volumeMounts[0].name",
        ),
        (
            format!("{C}/volumeMounts/0/subPath"),
            json!("/x"),
            "spec.containers[0].volumeMounts[0].subPath",
        ),
        (
            format!("{C}/volumeMounts/0/mountPropagation"),
            json!("Bidirectional"),
            "spec.containers[0].volumeMounts[0].mountPropagation",
        ),
        (
            format!("{C}/volumeMounts/0/recursiveReadOnly"),
            json!("Enabled"),
            "spec.containers[0].volumeMounts[0].recursiveReadOnly",
        ),
        (
            format!("{C}/resources"),
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            "spec.containers[0].resources.requests[cpu]",
        ),
        (
            format!("{C}/resources"),
            json!({"limits": {"gpu": "1"}}),
            "spec.containers[0].resources.limits[gpu]",
        ),
        (
            format!("{C}/resources"),
            json!({"limits": {"cpu": "-1"}}),
            "spec.containers[0].resources.limits[cpu]",
        ),
        (
            format!("{C}/resources"),
            json!({"requests": {"hugepages-2Mi": "2Mi"}}),
            "spec.containers[0].resources.requests[hugepages-2Mi]",
        ),
        (
            format!("{C}/livenessProbe/successThreshold"),
            json!(2),
            "spec.containers[0].livenessProbe.successThreshold",
        ),
        (
            format!("{C}/livenessProbe/exec"),
            json!({"command": ["a"]}),
            "spec.containers[0].livenessProbe.tcpSocket",
        ),
        (
            format!("{C}/readinessProbe"),
            json!({"exec": {"command": []}}),
            "spec.containers[0].readinessProbe.exec.command",
        ),
        (
            format!("{C}/readinessProbe"),
            json!({"httpGet": {"port": 0}}),
            "spec.containers[0].readinessProbe.httpGet.port",
        ),
        (
            format!("{C}/lifecycle"),
            json!({"preStop": {}}),
            "spec.containers[0].lifecycle.preStop",
        ),
        (
            format!("{C}/restartPolicyRules"),
            json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]),
            "spec.containers[0].restartPolicyRules",
        ),
        (
            format!("{C}/securityContext"),
            json!({"privileged": true, "allowPrivilegeEscalation": false}),
            "spec.containers[0].securityContext.allowPrivilegeEscalation",
        ),
        (
            "/spec/initContainers".to_owned(),
            json!([{"name": "i", "image": "i", "livenessProbe": {"tcpSocket": {"port": 1}}}]),
            "spec.initContainers[0].livenessProbe",
        ),
        (
            "/spec/ephemeralContainers".to_owned(),
            json!([{"name": "e", "image": "i", "targetContainerName": "x"}]),
            "spec.ephemeralContainers[0].targetContainerName",
        ),
    ];
    for (pointer, value, expected) in rows {
        let found = errors(&with(&pointer, value.clone()));
        let paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, [expected], "{pointer} = {value}: {found:?}");
    }
}

#[test]
fn what_has_no_effect_is_a_warning() {
    for (pointer, value) in [
        ("/spec/serviceAccountName", json!("robot")),
        ("/metadata/finalizers", json!(["a/b"])),
        ("/spec/imagePullSecrets", json!([{}])),
    ] {
        let verdict = super::pod(&with(pointer, value));
        assert_eq!(
            (verdict.errors.len(), verdict.warnings.len()),
            (0, 1),
            "{pointer}"
        );
    }
}

#[test]
fn values_have_proper_keys() {
    for (kind, object, expected) in [
        (
            "ConfigMap",
            json!({"metadata": {"name": "a"}, "data": {"a": "b"}}),
            0,
        ),
        ("ConfigMap", json!({"metadata": {}, "data": {"a": "b"}}), 1),
        (
            "ConfigMap",
            json!({"metadata": {"name": "a"}, "data": {"a/b": "b"}}),
            1,
        ),
        (
            "ConfigMap",
            json!({"metadata": {"name": "a"}, "data": {"a": ""}, "binaryData": {"a": ""}}),
            1,
        ),
        (
            "Secret",
            json!({"metadata": {"name": "a"}, "data": {"a": ""}, "stringData": {"a": ""}}),
            0,
        ),
        ("RuntimeClass", json!({"metadata": {"name": "a"}}), 1),
        (
            "RuntimeClass",
            json!({"metadata": {"name": "a"}, "handler": "h", "scheduling": {"nodeSelector": {"b/c": "d", "-": "e"}}}),
            1,
        ),
    ] {
        assert_eq!(
            values(kind, &object).errors.len(),
            expected,
            "{kind} {object}"
        );
    }
}

#[test]
fn variables_come_from_files_of_a_pods_own_directories() {
    let mut pod = good();
    let volumes = pod.pointer_mut("/spec/volumes").unwrap();
    volumes
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "node", "hostPath": {"path": "/"}}));
    let from = |volume: &str, path: &str, key: &str| {
        let mut pod = pod.clone();
        pod["spec"]["containers"][0]["env"] = json!([{"name": "A", "valueFrom": {"fileKeyRef":
            {"volumeName": volume, "path": path, "key": key}}}]);
        let fields = errors(&pod).into_iter().map(|(field, _)| field);
        let base = "spec.containers[0].env[0].valueFrom.fileKeyRef.";
        let short = fields.map(|it| it.strip_prefix(base).unwrap_or(&it).to_owned());
        short.collect::<Vec<_>>()
    };
    assert_eq!(from("v", "a/b.env", "KEY"), Vec::<String>::new());
    assert_eq!(from("none", "a", "K"), ["volumeName"]);
    assert_eq!(from("node", "etc/shadow", "K"), ["volumeName"]);
    assert_eq!(from("", "a", "K"), ["volumeName"]);
    assert_eq!(from("v", "a/../../b", "K"), ["path"]);
    assert_eq!(from("v", "", "K"), ["path"]);
    assert_eq!(from("v", "a", "K=1"), ["key"]);
}

#[test]
fn a_host_name_of_its_own_is_for_pods_with_a_network_of_their_own() {
    let mut pod = with("/spec/hostnameOverride", json!("db.example.org"));
    assert_eq!(errors(&pod), []);
    for other in ["setHostnameAsFQDN", "hostNetwork"] {
        pod["spec"][other] = json!(true);
        let fields: Vec<_> = errors(&pod).into_iter().map(|(field, _)| field).collect();
        assert!(
            fields.contains(&"spec.hostnameOverride".to_owned()),
            "{other}: {fields:?}"
        );
        pod["spec"][other] = json!(false);
    }
}

#[test]
fn tolerations_are_those_that_an_api_server_takes() {
    for (toleration, expected) in [
        (json!({"operator": "Exists"}), 0),
        (json!({"key": "a.example/b", "value": "c"}), 0),
        (
            json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}),
            0,
        ),
        (json!({"key": "a", "operator": "Gt", "value": "-5"}), 0),
        (json!({}), 1),
        (json!({"value": "a", "effect": "NoSchedule"}), 1),
        (json!({"key": "-"}), 1),
        (json!({"key": "a", "operator": "Is"}), 1),
        (json!({"key": "a", "operator": "Exists", "value": "b"}), 1),
        (json!({"key": "a", "value": "b c"}), 1),
        (json!({"key": "a", "operator": "Lt", "value": "b"}), 1),
        (json!({"key": "a", "effect": "Never"}), 1),
        (
            json!({"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}),
            1,
        ),
    ] {
        let pod = with("/spec/tolerations", json!([toleration]));
        assert_eq!(errors(&pod).len(), expected, "{toleration}");
        let class = json!({"metadata": {"name": "a"}, "handler": "h",
            "scheduling": {"tolerations": [toleration]}});
        let found = values("RuntimeClass", &class).errors;
        assert_eq!(found.len(), expected, "{toleration}: {found:?}");
    }
}
