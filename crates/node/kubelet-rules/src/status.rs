//! The status of a pod in the runtime.

use std::cmp::Reverse;
use std::net::IpAddr;

use orlop_cri_api::v1;

use crate::Timestamp;
use crate::hash::ContainerHash;

/// The status of a pod in the runtime.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodStatus {
    sandboxes: Vec<SandboxStatus>,
    containers: Vec<ContainerStatus>,
}

impl PodStatus {
    /// Sorts both lists as the rules require: the newest first.
    pub fn new(mut sandboxes: Vec<SandboxStatus>, mut containers: Vec<ContainerStatus>) -> Self {
        sandboxes.sort_by(|a, b| {
            (Reverse(a.attempt), Reverse(a.created_at), &a.id).cmp(&(
                Reverse(b.attempt),
                Reverse(b.created_at),
                &b.id,
            ))
        });
        containers
            .sort_by(|a, b| (Reverse(a.created_at), &a.id).cmp(&(Reverse(b.created_at), &b.id)));
        Self {
            sandboxes,
            containers,
        }
    }

    /// Returns the pod's sandboxes, the newest first.
    pub fn sandboxes(&self) -> &[SandboxStatus] {
        &self.sandboxes
    }

    /// Returns all instances of all containers, the newest first.
    pub fn containers(&self) -> &[ContainerStatus] {
        &self.containers
    }

    /// Returns the newest instance of a container.
    pub fn newest(&self, name: &str) -> Option<&ContainerStatus> {
        self.containers.iter().find(|c| c.name == name)
    }

    /// Removes containers that were created but never started.
    pub fn forget_unstarted(&mut self) {
        let started = |c: &ContainerStatus| c.state != ContainerState::Created;
        self.containers.retain(started);
    }

    /// Returns the newest exited instance of a container.
    pub fn newest_exited(&self, name: &str) -> Option<&ContainerStatus> {
        self.containers
            .iter()
            .find(|c| c.name == name && c.state == ContainerState::Exited)
    }

    /// Returns the addresses of the newest sandbox, if it is ready. If one cannot be parsed, none
    /// is returned. A host network pod has the node's addresses instead.
    pub fn pod_ips(&self) -> Vec<IpAddr> {
        let Some(newest) = self.sandboxes.first().filter(|s| s.ready) else {
            return Vec::new();
        };
        newest
            .ips
            .iter()
            .flatten()
            .filter(|ip| !ip.is_empty())
            .map(|ip| ip.parse())
            .collect::<Result<_, _>>()
            .unwrap_or_default()
    }
}

/// A sandbox of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxStatus {
    /// The runtime's id.
    pub id: String,
    /// The attempt number of the sandbox, from 0.
    pub attempt: u32,
    /// When it was created.
    pub created_at: Timestamp,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it uses the node's network.
    pub host_network: bool,
    /// Its addresses, the primary one first; `None` if the runtime reports no network.
    pub ips: Option<Vec<String>>,
}

impl From<&v1::PodSandboxStatus> for SandboxStatus {
    fn from(status: &v1::PodSandboxStatus) -> Self {
        let network_mode = status
            .linux
            .as_ref()
            .and_then(|l| l.namespaces.as_ref())
            .and_then(|n| n.options.as_ref())
            .map_or(v1::NamespaceMode::Pod, v1::NamespaceOption::network);
        let ips = status.network.as_ref().map(|network| {
            std::iter::once(&network.ip)
                .chain(
                    network
                        .additional_ips
                        .iter()
                        .map(|additional| &additional.ip),
                )
                .cloned()
                .collect()
        });
        Self {
            id: status.id.clone(),
            attempt: status.metadata.as_ref().map_or(0, |m| m.attempt),
            created_at: Timestamp(status.created_at),
            ready: status.state() == v1::PodSandboxState::SandboxReady,
            host_network: network_mode == v1::NamespaceMode::Node,
            ips,
        }
    }
}

/// The state of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ContainerState {
    /// Created, never started.
    Created,
    /// Running.
    Running,
    /// Exited.
    Exited,
    /// The runtime does not know the state.
    #[default]
    Unknown,
}

impl From<v1::ContainerState> for ContainerState {
    fn from(state: v1::ContainerState) -> Self {
        match state {
            v1::ContainerState::ContainerCreated => Self::Created,
            v1::ContainerState::ContainerRunning => Self::Running,
            v1::ContainerState::ContainerExited => Self::Exited,
            v1::ContainerState::ContainerUnknown => Self::Unknown,
        }
    }
}

/// An instance of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerStatus {
    /// The runtime's id.
    pub id: String,
    /// The container's name in the pod.
    pub name: String,
    /// Its state.
    pub state: ContainerState,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it started, if it has.
    pub started_at: Option<Timestamp>,
    /// When it ended, if it has.
    pub finished_at: Option<Timestamp>,
    /// Its exit code; 0 until it ends.
    pub exit_code: i32,
    /// The runtime's reason for its end, such as `OOMKilled`.
    pub reason: String,
    /// The runtime's message about it.
    pub message: String,
    /// The image's id, or its reference if the runtime reports no id.
    pub image_id: String,
    /// Its restart count, from 0.
    pub restart_count: u32,
    /// The hash of its definition; `None` if the annotation is missing or unreadable.
    pub hash: Option<ContainerHash>,
    /// The path of its log on the node.
    pub log_path: String,
}

impl ContainerStatus {
    /// Whether the container ended with exit code 0.
    pub fn succeeded(&self) -> bool {
        self.state == ContainerState::Exited && self.exit_code == 0
    }

    /// Whether an init container has failed; an unknown state counts as failed.
    pub fn init_failed(&self) -> bool {
        match self.state {
            ContainerState::Unknown => true,
            ContainerState::Exited => self.exit_code != 0 || self.reason == "OOMKilled",
            ContainerState::Created | ContainerState::Running => false,
        }
    }
}

impl From<&v1::ContainerStatus> for ContainerStatus {
    fn from(status: &v1::ContainerStatus) -> Self {
        let state = ContainerState::from(status.state());
        let exited = state == ContainerState::Exited;
        let annotation = |key: &str| status.annotations.get(key);
        Self {
            id: status.id.clone(),
            name: status
                .metadata
                .as_ref()
                .map(|m| m.name.clone())
                .unwrap_or_default(),
            state,
            created_at: Timestamp(status.created_at),
            started_at: (state != ContainerState::Created && status.started_at != 0)
                .then_some(Timestamp(status.started_at)),
            finished_at: exited.then_some(Timestamp(status.finished_at)),
            exit_code: if exited { status.exit_code } else { 0 },
            reason: if exited {
                status.reason.clone()
            } else {
                String::new()
            },
            message: if exited {
                status.message.clone()
            } else {
                String::new()
            },
            image_id: if status.image_id.is_empty() {
                status.image_ref.clone()
            } else {
                status.image_id.clone()
            },
            restart_count: annotation(crate::labels::RESTART_COUNT)
                .and_then(|count| count.parse().ok())
                .or_else(|| status.metadata.as_ref().map(|m| m.attempt))
                .unwrap_or_default(),
            hash: annotation(crate::labels::HASH).and_then(|hash| hash.parse().ok()),
            log_path: status.log_path.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandbox(id: &str, attempt: u32, created_at: i64) -> SandboxStatus {
        SandboxStatus {
            id: id.to_owned(),
            attempt,
            created_at: Timestamp(created_at),
            ready: true,
            ..SandboxStatus::default()
        }
    }

    #[test]
    fn sandboxes_sort_by_attempt_then_age_then_id() {
        let status = PodStatus::new(
            vec![
                sandbox("c", 1, 5),
                sandbox("b", 2, 3),
                sandbox("a", 2, 3),
                sandbox("d", 2, 4),
            ],
            Vec::new(),
        );
        let ids: Vec<_> = status.sandboxes().iter().map(|s| s.id.as_str()).collect();
        assert_eq!(ids, ["d", "a", "b", "c"]);
    }

    #[test]
    fn one_unreadable_address_makes_all_unknown() {
        for (ready, ips, expected) in [
            (true, Some(vec!["10.0.0.2", "fd00::2"]), 2),
            (true, Some(vec!["10.0.0.2", "nonsense"]), 0),
            (false, Some(vec!["10.0.0.2"]), 0),
            (true, Some(vec![""]), 0),
            (true, None, 0),
        ] {
            let mut newest = sandbox("a", 1, 1);
            newest.ready = ready;
            newest.ips = ips.map(|ips| ips.into_iter().map(str::to_owned).collect());
            let mut older = sandbox("b", 0, 0);
            older.ips = Some(vec!["10.0.0.1".to_owned()]);
            let status = PodStatus::new(vec![older, newest], Vec::new());
            assert_eq!(status.pod_ips().len(), expected);
        }
    }

    #[test]
    fn exit_fields_count_only_once_it_has_ended() {
        let mut reported = v1::ContainerStatus {
            id: "c".to_owned(),
            started_at: 7,
            finished_at: 9,
            exit_code: 3,
            reason: "Error".to_owned(),
            image_ref: "ref".to_owned(),
            ..v1::ContainerStatus::default()
        };
        reported.set_state(v1::ContainerState::ContainerCreated);
        let created = ContainerStatus::from(&reported);
        assert_eq!(
            (created.started_at, created.finished_at, created.exit_code),
            (None, None, 0)
        );
        reported.set_state(v1::ContainerState::ContainerExited);
        let exited = ContainerStatus::from(&reported);
        assert_eq!(exited.finished_at, Some(Timestamp(9)));
        assert_eq!((exited.exit_code, exited.reason.as_str()), (3, "Error"));
        assert_eq!(exited.image_id, "ref");
    }
}
