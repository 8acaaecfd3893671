//! State that the parts of an agent share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use orlop_kubelet_rules::Timestamp;
use orlop_kuberuntime::manager::{Event, Manager, Severity};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::admission::Gate;
use super::applied::AppliedManifests;
use super::capacity::Capacity;
use super::eviction::Condition;
use super::manifest::Remark;
use super::rates::Rates;
use super::{AgentError, AgentOptions, KubeletConfiguration};

/// How many events are kept for display.
const EVENTS: usize = 500;

/// State that the parts of an agent share. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Shared(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    manager: Manager,
    options: AgentOptions,
    capacity: Capacity,
    started: Timestamp,
    applied: AppliedManifests,
    said: Mutex<Said>,
    rates: Rates,
    /// Notified when [`Said`] changes.
    changed: Notify,
}

/// The agent's reports about itself.
#[derive(Debug, Default)]
struct Said {
    remarks: Vec<Remark>,
    conditions: BTreeMap<&'static str, Condition>,
    events: VecDeque<Arc<Event>>,
    origins: BTreeMap<String, String>,
    sources_read: bool,
}

impl Shared {
    pub(super) fn new(
        manager: Manager,
        options: AgentOptions,
        capacity: Capacity,
        applied: AppliedManifests,
    ) -> Self {
        Self(Arc::new(Inner {
            manager,
            options,
            capacity,
            started: now(),
            applied,
            said: Mutex::default(),
            rates: Rates::default(),
            changed: Notify::new(),
        }))
    }

    pub(crate) fn manager(&self) -> &Manager {
        &self.0.manager
    }

    pub(crate) fn options(&self) -> &AgentOptions {
        &self.0.options
    }

    pub(crate) fn configuration(&self) -> &KubeletConfiguration {
        &self.0.options.configuration
    }

    pub(crate) fn started(&self) -> Timestamp {
        self.0.started
    }

    /// Returns the CPU usage rates.
    pub(super) fn rates(&self) -> &Rates {
        &self.0.rates
    }

    /// Returns the current properties for admission.
    pub(super) fn gate(&self) -> Gate {
        Gate {
            allocatable: self.0.capacity.allocatable.clone(),
            labels: self.labels(),
            unsafe_sysctls: self.configuration().allowed_unsafe_sysctls.clone(),
            pressures: self.said().conditions.keys().copied().collect(),
        }
    }

    /// Returns the applied objects.
    pub(super) fn applied(&self) -> &AppliedManifests {
        &self.0.applied
    }

    pub(super) fn set_remarks(&self, remarks: &[Remark]) {
        let mut said = self.said();
        if said.remarks == remarks {
            return;
        }
        for remark in remarks.iter().filter(|it| !said.remarks.contains(it)) {
            match remark.weight {
                super::Weight::Error => tracing::error!("{remark}"),
                super::Weight::Warning => tracing::warn!("{remark}"),
            }
        }
        said.remarks = remarks.to_vec();
        drop(said);
        self.0.changed.notify_waiters();
    }

    pub(super) fn set_conditions(&self, conditions: &BTreeMap<&'static str, Condition>) {
        let mut said = self.said();
        let names = |of: &BTreeMap<&'static str, Condition>| -> BTreeSet<&'static str> {
            of.keys().copied().collect()
        };
        let (before, after) = (names(&said.conditions), names(conditions));
        for name in after.difference(&before) {
            tracing::warn!(condition = name, "the node is under pressure");
        }
        for name in before.difference(&after) {
            tracing::info!(condition = name, "the node is no longer under pressure");
        }
        said.conditions.clone_from(conditions);
    }

    pub(super) fn set_sources_read(&self) {
        self.said().sources_read = true;
    }

    pub(super) fn set_origin(&self, uid: &str, origin: &str) {
        self.said()
            .origins
            .insert(uid.to_owned(), origin.to_owned());
    }

    /// Returns the origin of a pod's manifest.
    pub(super) fn origin(&self, uid: &str) -> Option<String> {
        self.said().origins.get(uid).cloned()
    }

    pub(super) fn forget_origin(&self, uid: &str) {
        self.said().origins.remove(uid);
    }

    pub(super) fn add_event(&self, event: Arc<Event>) {
        let mut said = self.said();
        if said.events.len() == EVENTS {
            said.events.pop_front();
        }
        said.events.push_back(event);
    }

    /// Returns the problems of the manifests.
    pub(crate) fn remarks(&self) -> Vec<Remark> {
        self.said().remarks.clone()
    }

    /// Returns the last events, the oldest first.
    pub(crate) fn events(&self) -> Vec<Arc<Event>> {
        self.said().events.iter().cloned().collect()
    }

    /// Returns the agent's health.
    pub(crate) fn health(&self) -> Result<(), String> {
        self.manager().health()
    }

    /// Returns the labels of the node.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.options().labels.clone();
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        for (key, value) in [
            ("kubernetes.io/hostname", self.options().node_name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", arch),
        ] {
            labels
                .entry(key.to_owned())
                .or_insert_with(|| value.to_owned());
        }
        labels
    }

    /// Builds the JSON document for `orlop node status`.
    pub(crate) fn status(&self) -> Value {
        let runtime = self.manager().runtime_state();
        let said = self.said();
        let mut conditions = Vec::new();
        for name in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
            let found = said.conditions.get(name);
            conditions.push(json!({
                "type": name,
                "status": if found.is_some() { "True" } else { "False" },
                "since": found.map(|it| time(it.since)),
            }));
        }
        let trouble = runtime
            .runtime_error
            .clone()
            .or_else(|| runtime.network_error.clone())
            .or_else(|| self.manager().health().err());
        conditions.push(json!({
            "type": "Ready",
            "status": if trouble.is_none() { "True" } else { "False" },
            "message": trouble,
        }));
        let mut last: BTreeMap<&str, &Event> = BTreeMap::new();
        for event in &said.events {
            last.insert(&event.uid, event);
        }
        let pods = self.manager().pods();
        let pods: Vec<_> = pods
            .iter()
            .map(|pod| {
                let event = last.get(pod.uid.as_str());
                json!({
                    "namespace": pod.namespace,
                    "name": pod.name,
                    "uid": pod.uid,
                    "phase": format!("{:?}", pod.phase),
                    "summary": pod.summary,
                    "reason": pod.reason,
                    "message": pod.message,
                    "ready": pod.ready,
                    "readyContainers": [pod.ready_containers.0, pod.ready_containers.1],
                    "restarts": pod.restarts,
                    "ips": pod.ips,
                    "started": time(pod.start_time),
                    "origin": said.origins.get(&pod.uid),
                    "lastEvent": event.map(|event| event_json(event)),
                })
            })
            .collect();
        let amounts = |list: &orlop_kubelet_rules::pod::ResourceList| {
            list.iter()
                .map(|(name, amount)| (name.clone(), json!(amount.to_string())))
                .collect::<serde_json::Map<_, _>>()
        };
        json!({
            "node": self.options().node_name,
            "started": time(self.started()),
            "sourcesRead": said.sources_read,
            "runtime": {
                "endpoint": self.configuration().container_runtime_endpoint,
                "name": runtime.name,
                "version": runtime.version,
                "error": runtime.runtime_error,
                "networkError": runtime.network_error,
                "handlers": runtime.handlers.iter().map(|handler| &handler.name).collect::<Vec<_>>(),
            },
            "capacity": amounts(&self.0.capacity.total),
            "allocatable": amounts(&self.0.capacity.allocatable),
            "conditions": conditions,
            "remarks": said.remarks,
            "pods": pods,
        })
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.said.lock()
    }
}

/// Formats an event as JSON.
pub(crate) fn event_json(event: &Event) -> Value {
    json!({
        "time": time(event.time),
        "type": if event.severity == Severity::Warning { "Warning" } else { "Normal" },
        "reason": event.reason,
        "message": event.message,
        "namespace": event.namespace,
        "name": event.name,
        "container": event.container,
    })
}

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    let nanos = jiff::Timestamp::now().as_nanosecond();
    Timestamp(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// Formats a time in RFC 3339 with seconds, as Kubernetes does.
pub(crate) fn time(at: Timestamp) -> Option<String> {
    let at = jiff::Timestamp::from_nanosecond(i128::from(at.0)).ok()?;
    Some(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Creates a directory that only root can read.
pub(super) fn private_directory(path: &std::path::Path) -> Result<(), AgentError> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| AgentError::File {
            path: path.to_owned(),
            source,
        })
}
