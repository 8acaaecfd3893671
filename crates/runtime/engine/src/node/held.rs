//! All that is held, in one place. Whoever needs one or two things of it is given those.

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

/// What the service holds.
pub struct Node {
    /// What it was told last.
    pub settings: Settings,
    /// Where things are.
    pub paths: Paths,
    /// The pods' and containers' cgroups.
    pub cgroups: Cgroups,
    /// What this node is like.
    pub host: HostFacts,
    /// The pods.
    pub pods: Pods,
    /// The containers of all pods.
    pub containers: Containers,
    /// The image store.
    pub images: Images,
    /// The pulls that clients asked for.
    pub pulls: Arc<Pulls>,
    /// The pods' networks.
    pub networks: Networks,
    /// A mount namespace with next to no mounts, if there can be one.
    pub few_mounts: Option<Arc<OwnedFd>>,
    /// The programs of runtimes, as keepers call them.
    pub programs: ProtectedPrograms,
    /// A network namespace for the next pod.
    pub spare_net: Arc<Spare>,
    /// Tells whoever waits for it that a container was started.
    pub container_started: Notify,
    /// The runtime handlers.
    pub runtimes: Runtimes,
    /// The pods' SELinux levels.
    pub levels: AllottedLevels,
    /// The subscribers of events.
    pub events: Events,
    /// The plugins that take part.
    pub nri: Nri,
    /// What is counted.
    pub metrics: Metrics,
    /// The latest starts of pods and pulls.
    pub traces: Traces,
    /// Commands under way.
    pub commands: Commands,
    /// The memory for what those print whose output is waited for.
    pub exec_outputs: OutputBudget,
    /// Pods being made.
    pub sandboxes: Joins<PodName, PodId, Error>,
    /// Containers being made.
    pub creations: Joins<ContainerName, ContainerId, Error>,
    /// Other work that callers may share.
    pub works: Joins<(Work, String), (), Error>,
    /// What goes on in the background.
    pub tasks: TaskTracker,
    /// Where exec, attach and port-forward sessions are served, once they are.
    pub streams: OnceLock<Arc<orlop_streaming::Server>>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("root", &self.config().root)
            .finish_non_exhaustive()
    }
}

/// Work on a pod or container that two callers do not do twice.
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
    /// What it was told last. Whoever does one thing by several of its values holds on to it.
    pub fn config(&self) -> Arc<Config> {
        self.settings.now()
    }

    /// Where exec, attach and port-forward sessions are served.
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

    /// Where the time of a pod's start went.
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
