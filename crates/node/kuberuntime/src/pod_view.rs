//! The state of a pod as the manager publishes it.

use std::net::IpAddr;
use std::sync::Arc;

use orlop_kubelet_rules::Timestamp;
use orlop_kubelet_rules::cri_config::QosClass;
use orlop_kubelet_rules::phase::PodPhase;
use serde_json::{Value, json};

/// A snapshot of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PodView {
    /// The pod's uid.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The kind of its source.
    pub source: String,
    /// The complete manifest.
    pub manifest: Arc<Value>,
    /// A `v1.PodStatus`, as the kubelet would report it.
    pub status: Arc<Value>,
    /// The pod's phase.
    pub phase: PodPhase,
    /// Why the manager ended the pod, if it did: `Evicted`, `DeadlineExceeded` …
    pub reason: String,
    /// The message that explains it.
    pub message: String,
    /// A one-word status for people: the phase, or what keeps a container from running.
    pub summary: String,
    /// Whether the pod is ready.
    pub ready: bool,
    /// How many regular containers (and sidecars) are ready, and how many there are.
    pub ready_containers: (usize, usize),
    /// Restarts of all containers.
    pub restarts: u32,
    /// Its addresses, the primary one first.
    pub ips: Vec<IpAddr>,
    /// The QoS class.
    pub qos: QosClass,
    /// When the manager first saw it.
    pub start_time: Timestamp,
    /// The stage of its worker.
    pub stage: Stage,
}

impl PodView {
    /// Returns the pod as a `v1.Pod`: manifest and status.
    pub fn to_json(&self) -> Value {
        let mut pod = (*self.manifest).clone();
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["status"] = (*self.status).clone();
        pod
    }
}

/// The stage of a pod's worker.
///
/// ```text
/// Syncing ──► Terminating ──► Terminated
///    ▲                             │ the uid was set again meanwhile
///    └─────────────────────────────┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The worker syncs the pod with its manifest.
    Syncing,
    /// The worker stops all containers.
    Terminating,
    /// Nothing of the pod runs, and nothing will.
    Terminated,
}
