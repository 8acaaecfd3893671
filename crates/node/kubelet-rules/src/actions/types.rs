//! The types of the actions that a pod needs.

use std::collections::BTreeMap;

use crate::pod::Resources;
use crate::status::PodStatus;

/// The actions that a pod needs. Containers are identified by their index in the pod's lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodActions {
    /// Stop everything, including the sandboxes.
    pub kill_pod: bool,
    /// Create a new sandbox.
    pub create_sandbox: bool,
    /// The id of the newest sandbox, if it is relevant.
    pub sandbox_id: Option<String>,
    /// The attempt number of the sandbox to use or create.
    pub attempt: u32,
    /// Init containers to start, in this order.
    pub init_containers_to_start: Vec<usize>,
    /// Regular containers to start, in this order.
    pub containers_to_start: Vec<usize>,
    /// Ephemeral containers to start, in this order.
    pub ephemeral_containers_to_start: Vec<usize>,
    /// Containers to kill before others start.
    pub containers_to_kill: Vec<Kill>,
    /// Containers to resize while they run.
    pub containers_to_resize: Vec<Resize>,
    /// Containers to kill and remove, in this order, to restart the whole pod.
    pub containers_to_reset: Vec<Reset>,
}

/// A container to kill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    /// The runtime's id.
    pub id: String,
    /// The name in the pod.
    pub name: String,
    /// The reason.
    pub reason: KillReason,
    /// Whether it is restarted afterwards.
    pub restarts: bool,
}

/// Why a container is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    /// Its definition has changed.
    DefinitionChanged,
    /// Its liveness probe failed.
    LivenessProbe,
    /// Its startup probe failed.
    StartupProbe,
    /// Its resources have changed, and its resize policy requires a restart.
    Resized,
    /// The runtime does not know its state.
    Unknown,
}

/// A container to resize while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resize {
    /// The runtime's id.
    pub id: String,
    /// The name in the pod.
    pub name: String,
    /// Whether its CPU resources change.
    pub cpu: bool,
    /// Whether its memory resources change.
    pub memory: bool,
}

/// A container to kill without a grace period and to remove; its log stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset {
    /// The runtime's id.
    pub id: String,
    /// The name in the pod.
    pub name: String,
}

/// The result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeResult {
    /// The check succeeded.
    Success,
    /// The check failed.
    Failure,
    /// The result is not known yet.
    Unknown,
}

/// The results of probes, by container id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeResults {
    /// Results of liveness probes.
    pub liveness: BTreeMap<String, ProbeResult>,
    /// Results of startup probes.
    pub startup: BTreeMap<String, ProbeResult>,
}

/// The resources that running containers were last given, by container name.
pub type ActuatedResources = BTreeMap<String, Resources>;

/// The observed state of a pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// The status that the runtime reports.
    pub status: PodStatus,
    /// The results of probes.
    pub probes: ProbeResults,
    /// The resources that containers were last given.
    pub actuated: ActuatedResources,
}
