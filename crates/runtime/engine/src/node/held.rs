//! The state of the running service. Functions that need one or two fields take just those.

use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use orlop_cri_server::exec_output::OutputBudget;
use orlop_cri_server::joins::Joins;
use orlop_image_store::Images;
use orlop_launch::ProtectedPrograms;
use orlop_network::Networks;
use orlop_network::spare::Spare;
use orlop_nri::Nri;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::events::Events;
use crate::image::pulls::Pulls;
use crate::node::cgroups::Cgroups;
use crate::node::commands::Commands;
use crate::node::metrics::Metrics;
use crate::node::paths::Paths;
use crate::node::runtimes::Runtimes;
use crate::node::selinux_levels::AllottedLevels;
use crate::node::settings::Settings;
use crate::record::containers::Containers;
use crate::record::ids::{ContainerId, PodId};
use crate::record::names::{ContainerName, PodName};
use crate::record::pod::Pod;
use crate::record::pods::Pods;
use crate::spec::HostFacts;
use crate::timeline::{Trace, Traces};

/// The state of the running service.
pub struct Node {
    /// The current configuration.
    pub settings: Settings,
    /// Paths of the service's files.
    pub paths: Paths,
    /// The cgroups of pods and containers.
    pub cgroups: Cgroups,
    /// Properties of the host.
    pub host: HostFacts,
    /// The pods.
    pub pods: Pods,
    /// The containers of all pods.
    pub containers: Containers,
    /// The image store.
    pub images: Images,
    /// The pulls that clients requested.
    pub pulls: Arc<Pulls>,
    /// The pods' networks.
    pub networks: Networks,
    /// A mount namespace with few mounts, if one can be made.
    pub few_mounts: Option<Arc<OwnedFd>>,
    /// The runtime programs on read-only mounts, which keepers execute.
    pub programs: ProtectedPrograms,
    /// A network namespace for the next pod.
    pub spare_net: Arc<Spare>,
    /// Notifies waiters that a container was started.
    pub container_started: Notify,
    /// The runtime handlers.
    pub runtimes: Runtimes,
    /// The pods' SELinux levels.
    pub levels: AllottedLevels,
    /// The subscribers of events.
    pub events: Events,
    /// The NRI plugins.
    pub nri: Nri,
    /// The metrics.
    pub metrics: Metrics,
    /// Traces of the latest pod starts and pulls.
    pub traces: Traces,
    /// Commands that run in containers.
    pub commands: Commands,
    /// Memory for the output of commands run by ExecSync.
    pub exec_outputs: OutputBudget,
    /// Pods that are being created.
    pub sandboxes: Joins<PodName, PodId, Error>,
    /// Containers that are being created.
    pub creations: Joins<ContainerName, ContainerId, Error>,
    /// Other work that callers may share.
    pub works: Joins<(Work, String), (), Error>,
    /// Background tasks.
    pub tasks: TaskTracker,
    /// The server of exec, attach and port-forward sessions, once it runs.
    pub streams: OnceLock<Arc<orlop_streaming::Server>>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("root", &self.config().root)
            .finish_non_exhaustive()
    }
}

/// Work on a pod or container that concurrent callers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// `StopPodSandbox`.
    StopPod,
    /// `RemovePodSandbox`.
    RemovePod,
    /// `StartContainer`.
    StartContainer,
    /// `RemoveContainer`.
    RemoveContainer,
}

impl Node {
    /// Returns the current configuration. A caller that uses several values together keeps the `Arc`.
    pub fn config(&self) -> Arc<Config> {
        self.settings.now()
    }

    /// Returns the server of exec, attach and port-forward sessions.
    pub fn streams(&self) -> Result<Arc<orlop_streaming::Server>> {
        let server = self.streams.get().cloned();
        server
            .ok_or_else(|| Error::Internal("the streaming server is still starting".into()).into())
    }

    /// Runs work to its end even if the caller leaves.
    pub async fn finish<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.tasks.spawn(work).await.unwrap_or_else(|failure| {
            Err(Error::Internal(format!(
                "the operation panicked or was cancelled: {failure}"
            ))
            .into())
        })
    }

    /// Returns the trace of a pod's start.
    pub fn trace_of(&self, pod: &Pod) -> Arc<Trace> {
        let name = || {
            let metadata = pod.config.metadata.as_ref();
            metadata.map_or_else(String::new, |metadata| {
                format!("{}/{}", metadata.namespace, metadata.name)
            })
        };
        self.traces.of_pod(pod.id.as_str(), name, &pod.runtime)
    }
}
