//! Creates pods from the templates of Deployments and other workloads.
//!
//! A standalone node has no controllers, so the agent expands workloads itself. It creates one pod
//! per replica, named `<name>-0`, `<name>-1` …; one pod for a DaemonSet; and for a Job, as many
//! pods as run at once. They are ordinary pods from then on.

use serde_json::{Map, Value, json};

/// The annotation with the workload that a pod comes from, such as `Deployment/web`.
pub(crate) const MADE_FROM: &str = "orlop.dev/made-from";

/// Maximum number of replicas: more are a mistake on a single node.
const MOST_REPLICAS: i64 = 1000;

/// The expansion of a workload.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    /// The pods.
    pub(super) pods: Vec<Value>,
    /// The path of the pod template in the object.
    pub(super) template: &'static str,
    /// Features that work less well than in a cluster.
    pub(super) reduced: Vec<String>,
    /// Why there are no pods.
    pub(super) wrong: Option<String>,
}

/// Expands an object of `kind` to its pods.
pub(super) fn pods(kind: &str, object: &Value) -> Expanded {
    let mut expanded = Expanded::default();
    if kind == "Pod" {
        let mut pod = object.clone();
        if let Some(fields) = pod.as_object_mut() {
            fields.remove("status");
        }
        expanded.pods = vec![pod];
        return expanded;
    }
    expanded.template = if kind == "PodTemplate" {
        "template"
    } else {
        "spec.template"
    };
    let spec = &object["spec"];
    let template = if kind == "PodTemplate" {
        &object["template"]
    } else {
        &spec["template"]
    };
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        expanded.wrong =
            Some("metadata.name: is missing; the names of the pods are derived from it".to_owned());
        return expanded;
    }
    if !template.is_object() {
        expanded.wrong = Some(format!("{}: is missing", expanded.template));
        return expanded;
    }
    let count = |value: &Value, default| value.as_i64().unwrap_or(default);
    let mut first = 0;
    let mut extra = Map::new();
    let replicas = match kind {
        "DaemonSet" | "PodTemplate" => 1,
        "Job" => {
            job(spec, template, &mut expanded);
            if let Some(deadline) = spec["activeDeadlineSeconds"].as_i64()
                && template["spec"]["activeDeadlineSeconds"].is_null()
            {
                extra.insert("activeDeadlineSeconds".to_owned(), deadline.into());
            }
            let at_once = count(&spec["parallelism"], 1);
            let suspended = spec["suspend"].as_bool() == Some(true);
            if suspended {
                0
            } else {
                at_once.min(count(&spec["completions"], at_once))
            }
        }
        _ => {
            if kind == "StatefulSet" {
                first = count(&spec["ordinals"]["start"], 0);
                stateful_set(spec, &mut expanded);
            } else if kind == "Deployment" {
                expanded.reduced.push(
                    "a standalone node does no rolling updates; if the template changes, it \
                     replaces all pods at once"
                        .to_owned(),
                );
            }
            count(&spec["replicas"], 1)
        }
    };
    if !(0..=MOST_REPLICAS).contains(&replicas) {
        expanded.wrong = Some(format!(
            "spec: {replicas} replicas are not supported on one node; use between 0 and \
             {MOST_REPLICAS}"
        ));
        return expanded;
    }
    let alone = matches!(kind, "DaemonSet" | "PodTemplate") || kind == "Job" && replicas == 1;
    for i in first..first.saturating_add(replicas) {
        let pod_name = if alone {
            name.to_owned()
        } else {
            format!("{name}-{i}")
        };
        let mut pod = one(object, template, kind, &pod_name);
        if kind == "StatefulSet" {
            pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] = i.to_string().into();
            pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = json!(pod_name);
            if pod["spec"]["hostname"].is_null() {
                pod["spec"]["hostname"] = json!(pod_name);
            }
        }
        if kind == "Job" && spec["completionMode"] == "Indexed" {
            index(&mut pod, i);
        }
        for (key, value) in &extra {
            pod["spec"][key] = value.clone();
        }
        expanded.pods.push(pod);
    }
    expanded
}

/// Creates one pod of a template.
fn one(object: &Value, template: &Value, kind: &str, name: &str) -> Value {
    let mut metadata = match &template["metadata"] {
        Value::Object(fields) => fields.clone(),
        _ => Map::new(),
    };
    metadata.insert("name".to_owned(), name.into());
    if let Some(namespace) = object["metadata"]["namespace"].as_str() {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    if !matches!(metadata.get("labels"), Some(Value::Object(_))) {
        metadata.insert("labels".to_owned(), json!({}));
    }
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": template["spec"]});
    if !matches!(pod["metadata"]["annotations"], Value::Object(_)) {
        pod["metadata"]["annotations"] = json!({});
    }
    pod["metadata"]["annotations"][MADE_FROM] = json!(format!(
        "{kind}/{}",
        object["metadata"]["name"].as_str().unwrap_or_default()
    ));
    pod
}

fn job(spec: &Value, template: &Value, expanded: &mut Expanded) {
    let policy = template["spec"]["restartPolicy"]
        .as_str()
        .unwrap_or("Always");
    if policy == "Always" {
        expanded.wrong = Some(
            "spec.template.spec.restartPolicy: must be OnFailure or Never for the pods of a Job"
                .to_owned(),
        );
    }
    let at_once = spec["parallelism"].as_i64().unwrap_or(1);
    if let Some(completions) = spec["completions"].as_i64().filter(|it| *it > at_once) {
        expanded.reduced.push(format!(
            "a standalone node does not count completions; it runs as many pods as parallelism \
             ({at_once}) and ignores completions ({completions})"
        ));
    }
    if policy == "Never" && spec["backoffLimit"].as_i64() != Some(0) {
        expanded.reduced.push(
            "a standalone node does not replace the failed pods of a Job; set restartPolicy: \
             OnFailure to restart their containers"
                .to_owned(),
        );
    }
    for field in [
        "ttlSecondsAfterFinished",
        "podFailurePolicy",
        "successPolicy",
    ] {
        if !spec[field].is_null() {
            expanded
                .reduced
                .push(format!("spec.{field}: has no effect without a controller"));
        }
    }
}

fn stateful_set(spec: &Value, expanded: &mut Expanded) {
    if spec["podManagementPolicy"] != "Parallel" {
        expanded.reduced.push(
            "a standalone node starts all pods of a StatefulSet at once, not one after the other"
                .to_owned(),
        );
    }
    let claims = spec["volumeClaimTemplates"].as_array();
    if claims.is_some_and(|claims| !claims.is_empty()) {
        expanded.wrong = Some(
            "spec.volumeClaimTemplates: persistent volumes need a cluster; use a hostPath volume \
             in the template"
                .to_owned(),
        );
    }
}

/// Sets the index of a pod of an indexed Job.
fn index(pod: &mut Value, index: i64) {
    let text = index.to_string();
    pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = json!(text);
    pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = json!(text);
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let variable = json!({"name": "JOB_COMPLETION_INDEX", "value": text});
            match container["env"].as_array_mut() {
                Some(env) => env.push(variable),
                None => container["env"] = json!([variable]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(kind: &str, spec: Value) -> Expanded {
        let template = json!({"metadata": {"labels": {"app": "x"}},
            "spec": {"restartPolicy": spec["policy"], "containers": [{"name": "c", "image": "i"}]}});
        let mut object = json!({"metadata": {"name": "web", "namespace": "n"}, "spec": spec});
        if kind == "PodTemplate" {
            object["template"] = template;
        } else {
            object["spec"]["template"] = template;
        }
        pods(kind, &object)
    }

    fn names(kind: &str, spec: Value) -> Vec<String> {
        let expanded = expand(kind, spec);
        assert_eq!(expanded.wrong, None, "{kind}");
        let names = expanded.pods.iter().map(|pod| {
            assert_eq!(pod["metadata"]["namespace"], "n");
            assert_eq!(pod["metadata"]["labels"]["app"], "x");
            pod["metadata"]["name"].as_str().unwrap().to_owned()
        });
        names.collect()
    }

    #[test]
    fn each_kind_gives_its_pods() {
        for (kind, spec, expected) in [
            ("Deployment", json!({}), vec!["web-0"]),
            (
                "Deployment",
                json!({"replicas": 3}),
                vec!["web-0", "web-1", "web-2"],
            ),
            ("ReplicaSet", json!({"replicas": 0}), vec![]),
            ("DaemonSet", json!({}), vec!["web"]),
            ("PodTemplate", json!({}), vec!["web"]),
            (
                "StatefulSet",
                json!({"replicas": 2, "ordinals": {"start": 5}}),
                vec!["web-5", "web-6"],
            ),
            ("Job", json!({"policy": "Never"}), vec!["web"]),
            (
                "Job",
                json!({"policy": "OnFailure", "parallelism": 2, "completions": 9}),
                vec!["web-0", "web-1"],
            ),
            (
                "Job",
                json!({"policy": "Never", "parallelism": 5, "completions": 2}),
                vec!["web-0", "web-1"],
            ),
            ("Job", json!({"policy": "Never", "suspend": true}), vec![]),
        ] {
            assert_eq!(names(kind, spec.clone()), expected, "{kind} {spec}");
        }
    }

    #[test]
    fn what_is_less_than_in_a_cluster_is_said() {
        for (kind, spec, word) in [
            ("Deployment", json!({}), "rolling"),
            ("StatefulSet", json!({}), "at once"),
            ("Job", json!({"policy": "Never"}), "does not replace"),
            (
                "Job",
                json!({"policy": "OnFailure", "completions": 4}),
                "completions",
            ),
        ] {
            let reduced = expand(kind, spec).reduced;
            assert!(
                reduced.iter().any(|text| text.contains(word)),
                "{kind}: {reduced:?}"
            );
        }
        for (kind, spec, word) in [
            ("Job", json!({}), "restartPolicy"),
            (
                "Deployment",
                json!({"replicas": -1}),
                "not supported on one node",
            ),
            (
                "Deployment",
                json!({"replicas": 5000}),
                "not supported on one node",
            ),
            (
                "StatefulSet",
                json!({"volumeClaimTemplates": [{}]}),
                "hostPath",
            ),
        ] {
            let wrong = expand(kind, spec).wrong.unwrap_or_default();
            assert!(wrong.contains(word), "{kind}: {wrong}");
        }
    }

    #[test]
    fn indexed_jobs_number_their_pods() {
        let expanded = expand(
            "Job",
            json!({"policy": "Never", "completionMode": "Indexed", "parallelism": 2, "completions": 2}),
        );
        assert_eq!(
            expanded.pods[1]["spec"]["containers"][0]["env"],
            json!([{"name": "JOB_COMPLETION_INDEX", "value": "1"}])
        );
    }
}
