//! The manifests for the web page: the state of each pod, its problems, and the results of its
//! probes.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_kuberuntime::manager::{Event, PodView};
use serde_json::{Value, json};

use super::manifest::{Remark, Weight};
use super::shared::Shared;

/// The probe fields of a container, and the prefix of their events.
const PROBES: [(&str, &str, &str); 3] = [
    ("startupProbe", "startup", "Startup"),
    ("livenessProbe", "liveness", "Liveness"),
    ("readinessProbe", "readiness", "Readiness"),
];

/// The container lists of a pod that can have probes.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

impl Shared {
    /// Lists each pod with its manifest, and each file without pods.
    pub(crate) fn manifests(&self) -> Value {
        let (remarks, events) = (self.remarks(), self.events());
        let mut unused: BTreeMap<(String, String), Vec<&Remark>> = BTreeMap::new();
        for remark in &remarks {
            let key = (remark.origin.clone(), remark.object.clone());
            unused.entry(key).or_default().push(remark);
        }
        let mut told = Vec::new();
        for pod in self.manager().pods() {
            let origin = self.origin(&pod.uid).unwrap_or_default();
            let object = format!("Pod {}/{}", pod.namespace, pod.name);
            let own = unused.remove(&(origin.clone(), object));
            let own = own.unwrap_or_default();
            told.push(json!({
                "file": origin,
                "pod": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
                "ok": is_well(&own),
                "problems": problems(&own),
                "probes": probes(&pod, &events),
            }));
        }
        for ((origin, object), own) in unused {
            let named = object
                .strip_prefix("Pod ")
                .and_then(|it| it.split_once('/'));
            told.push(json!({
                "file": origin,
                "pod": named.map(|(_, name)| name),
                "namespace": named.map(|(namespace, _)| namespace),
                "ok": is_well(&own),
                "problems": problems(&own),
                "probes": [],
            }));
        }
        told.into()
    }
}

fn is_well(remarks: &[&Remark]) -> bool {
    remarks
        .iter()
        .all(|remark| remark.weight == Weight::Warning)
}

fn problems(remarks: &[&Remark]) -> Vec<Value> {
    let told = remarks.iter();
    told.map(|remark| json!({ "line": remark.line, "text": remark.text, "weight": remark.weight }))
        .collect()
}

/// Lists the probes in the manifest, with their failures from events.
fn probes(pod: &PodView, events: &[Arc<Event>]) -> Vec<Value> {
    let spec = &pod.manifest["spec"];
    let containers = CONTAINERS.iter().filter_map(|list| spec[*list].as_array());
    let mut told = Vec::new();
    for container in containers.flatten() {
        let name = container["name"].as_str().unwrap_or_default();
        for (field, kind, word) in PROBES {
            if !container[field].is_object() {
                continue;
            }
            let bad = events.iter().filter(|event| {
                event.reason == "Unhealthy"
                    && event.uid == pod.uid
                    && event.container.as_deref() == Some(name)
                    && event.message.starts_with(word)
            });
            let bad: Vec<_> = bad.collect();
            // Milliseconds since the epoch, like all times on the page.
            let millis = |event: &Event| event.time.0 as f64 / 1e6;
            let last = bad.last();
            let last = last.map(|event| json!({ "time": millis(event), "answer": event.message }));
            told.push(json!({
                "container": name,
                "kind": kind,
                "ok": is_passed(pod, name, kind),
                "last": last,
                "failures": bad.len(),
            }));
        }
    }
    told
}

/// Returns the result of a container's probe from the pod's status, if it shows one.
fn is_passed(pod: &PodView, container: &str, kind: &str) -> Option<bool> {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let statuses = lists.iter().filter_map(|list| pod.status[*list].as_array());
    let status = statuses
        .flatten()
        .find(|status| status["name"] == container)?;
    match kind {
        "startup" => status["started"].as_bool(),
        "readiness" => status["ready"].as_bool(),
        // A running container has not failed often enough to be killed.
        _ => Some(status["state"]["running"].is_object()),
    }
}
