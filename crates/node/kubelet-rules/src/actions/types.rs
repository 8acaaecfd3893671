//! What a pod needs now, as data.

use std::collections::BTreeMap;

use crate::pod::Resources;
use crate::status::PodStatus;

/// What a pod needs now. Containers are named by their index in the pod's lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodActions {
    /// Stop everything, the sandboxes too.
    pub kill_pod: bool,
    /// Make a new sandbox.
    pub create_sandbox: bool,
    /// The newest sandbox, if it counts.
    pub sandbox_id: Option<String>,
    /// The number of the sandbox to use or make.
    pub attempt: u32,
    /// Init containers to start, in this order.
    pub init_containers_to_start: Vec<usize>,
    /// Regular containers to start, in this order.
    pub containers_to_start: Vec<usize>,
    /// Ephemeral containers to start, in this order.
    pub ephemeral_containers_to_start: Vec<usize>,
    /// Containers to kill before anything is started.
    pub containers_to_kill: Vec<Kill>,
    /// Containers to change while they run.
    pub containers_to_resize: Vec<Resize>,
    /// Containers to kill and remove, in this order, so that the pod begins anew.
    pub containers_to_reset: Vec<Reset>,
}

/// One container to kill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    /// The runtime's id.
    pub id: String,
    /// The name in the pod.
    pub name: String,
    /// Why.
    pub reason: KillReason,
    /// Whether it comes back afterwards.
    pub restarts: bool,
}

/// Why a container is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    /// Its definition has changed.
    DefinitionChanged,
    /// It no longer works.
    LivenessProbe,
    /// It did not come up.
    StartupProbe,
    /// Its resources have changed, and it wants to start anew for that.
    Resized,
    /// The runtime cannot tell what it is doing.
    Unknown,
}

/// One container to change while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resize {
    /// The runtime's id.
    pub id: String,
    /// The name in the pod.
    pub name: String,
    /// Whether its share of the processors changes.
    pub cpu: bool,
    /// Whether its memory changes.
    pub memory: bool,
}

/// One container to kill without grace and remove; its log stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset {
    /// The runtime's id.
    pub id: String,
    /// The name in the pod.
    pub name: String,
}

/// What a probe has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeResult {
    /// It is as it should be.
    Success,
    /// It is not.
    Failure,
    /// There is no telling yet.
    Unknown,
}

/// What the probes have found, by the runtime's container id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeResults {
    /// Whether containers still work.
    pub liveness: BTreeMap<String, ProbeResult>,
    /// Whether containers have come up.
    pub startup: BTreeMap<String, ProbeResult>,
}

/// The resources that running containers were last given, by container name.
pub type ActuatedResources = BTreeMap<String, Resources>;

/// All that is known about a pod at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// What the runtime reports.
    pub status: PodStatus,
    /// What the probes have found.
    pub probes: ProbeResults,
    /// What the containers were last given.
    pub actuated: ActuatedResources,
}
