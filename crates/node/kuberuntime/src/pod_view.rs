//! A pod as its manager sees it at one moment.

use std::net::IpAddr;
use std::sync::Arc;

use orlop_kubelet_rules::Timestamp;
use orlop_kubelet_rules::cri_config::QosClass;
use orlop_kubelet_rules::phase::PodPhase;
use serde_json::{Value, json};

/// A pod as its manager sees it at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct PodView {
    /// The pod's uid.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The kind of source it came from.
    pub source: String,
    /// The manifest, in full.
    pub manifest: Arc<Value>,
    /// A `v1.PodStatus`, as the kubelet would report it.
    pub status: Arc<Value>,
    /// How far it has come.
    pub phase: PodPhase,
    /// Why it is over, if it was ended from above: `Evicted`, `DeadlineExceeded` …
    pub reason: String,
    /// The sentence to that.
    pub message: String,
    /// One word for people: the phase, or what keeps a container from running.
    pub summary: String,
    /// Whether all of it can be talked to.
    pub ready: bool,
    /// How many regular containers (and sidecars) are ready, and how many there are.
    pub ready_containers: (usize, usize),
    /// Restarts of all containers.
    pub restarts: u32,
    /// Its addresses, the primary one first.
    pub ips: Vec<IpAddr>,
    /// How firmly its resources are promised.
    pub qos: QosClass,
    /// When the manager first saw it.
    pub start_time: Timestamp,
    /// What its worker is at.
    pub stage: Stage,
}

impl PodView {
    /// The pod as a `v1.Pod`: manifest and status.
    pub fn to_json(&self) -> Value {
        let mut pod = (*self.manifest).clone();
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["status"] = (*self.status).clone();
        pod
    }
}

/// What a pod's worker is at.
///
/// ```text
/// Syncing ──► Terminating ──► Terminated
///    ▲                             │ the uid was wanted again meanwhile
///    └─────────────────────────────┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It brings the pod to what its manifest says.
    Syncing,
    /// It stops all containers.
    Terminating,
    /// Nothing of it runs, and nothing will.
    Terminated,
}
