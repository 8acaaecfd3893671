//! The pod's conditions such as `Ready`, and when each last changed.

use std::collections::BTreeMap;

use orlop_kubelet_rules::Timestamp;
use orlop_kubelet_rules::phase::PodPhase;
use serde_json::{Value, json};

use crate::clock::now;
use crate::pod_view::Stage;

/// The pod's conditions and when each last changed.
#[derive(Debug, Clone, Default)]
pub(super) struct Conditions(BTreeMap<&'static str, (bool, Timestamp)>);

/// The progress of a pod.
pub(super) struct Come<'a> {
    pub(super) has_sandbox: bool,
    pub(super) initialized: bool,
    pub(super) containers_ready: bool,
    pub(super) over: bool,
    /// Init containers that are not complete.
    pub(super) incomplete: Vec<&'a str>,
    /// Containers and sidecars that are not ready.
    pub(super) unready: Vec<&'a str>,
}

impl Conditions {
    /// Returns the pod's conditions as JSON.
    pub(super) fn json(&mut self, come: &Come<'_>, phase: PodPhase, stage: Stage) -> Value {
        let Come {
            has_sandbox,
            initialized,
            containers_ready,
            over,
            ..
        } = *come;
        let why = match phase {
            PodPhase::Succeeded => "PodCompleted",
            PodPhase::Failed => "PodFailed",
            _ => "ContainersNotReady",
        };
        let named = |what: &str, names: &[&str]| {
            let names = names.join(" ");
            format!("containers with {what} status: [{names}]")
        };
        let incomplete = named("incomplete", &come.incomplete);
        let unready = if over || come.unready.is_empty() {
            String::new()
        } else {
            named("unready", &come.unready)
        };
        let rows = [
            ("PodReadyToStartContainers", has_sandbox && !over, "", ""),
            (
                "Initialized",
                initialized,
                "ContainersNotInitialized",
                incomplete.as_str(),
            ),
            (
                "Ready",
                containers_ready && stage == Stage::Syncing,
                why,
                unready.as_str(),
            ),
            ("ContainersReady", containers_ready, why, unready.as_str()),
            ("PodScheduled", true, "", ""),
        ];
        let conditions = rows.map(|(kind, status, reason, message)| {
            let at = self.set(kind, status);
            let mut condition = json!({
                "type": kind,
                "status": if status { "True" } else { "False" },
                "lastProbeTime": null,
                "lastTransitionTime": at.rfc3339(),
            });
            if !status && !reason.is_empty() {
                condition["reason"] = json!(reason);
                if !message.is_empty() {
                    condition["message"] = json!(message);
                }
            }
            condition
        });
        json!(conditions)
    }

    fn set(&mut self, kind: &'static str, status: bool) -> Timestamp {
        let entry = self.0.entry(kind).or_insert((status, now()));
        if entry.0 != status {
            *entry = (status, now());
        }
        entry.1
    }
}
