//! The service and the state that its calls share.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use orlop_cgroup::Hierarchies;
use orlop_cri_api::v1::{CreateContainerRequest, PodSandboxMetadata, RunPodSandboxRequest};
use orlop_cri_server::exec_output::OutputBudget;
use orlop_cri_server::joins::Joins;
use orlop_cri_server::timeline::{Metrics, Trace, Traces};
use orlop_image_store::ForeignImages;
use orlop_streaming::Server;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::checkpoints::Checkpoints;
use crate::config::Config;
use crate::docker::{Docker, Operations};
use crate::engine_info::EngineInfo;
use crate::engine_return::EngineReturn;
use crate::error::Error;
use crate::events::Events;
use crate::exec::Execs;
use crate::image_usage::ImageUsage;
use crate::log::Logs;
use crate::network::PodNetwork;
use crate::pause::Pause;
use crate::pull::Puller;
use crate::remembered::Remembered;
use crate::stats::Stats;

/// The CRI service over a Docker Engine. Cheap to clone.
#[derive(Clone)]
pub struct Shim(pub(crate) Arc<Inner>);

/// The state that all calls share.
pub struct Inner {
    pub(crate) config: Config,
    pub(crate) docker: Arc<Docker>,
    pub(crate) info: EngineInfo,
    pub(crate) engine_return: EngineReturn,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) network: Arc<PodNetwork>,
    /// The signature policies; `None` allows any image.
    pub(crate) policies: Option<ForeignImages>,
    pub(crate) puller: Puller,
    pub(crate) pause: Pause,
    pub(crate) remembered: Remembered,
    pub(crate) new_sandboxes: Joins<String, String, Error, RunPodSandboxRequest>,
    pub(crate) new_containers: Joins<String, String, Error, CreateContainerRequest>,
    pub(crate) logs: Logs,
    pub(crate) events: Events,
    pub(crate) execs: Arc<Execs>,
    /// Memory limit for the output of ExecSync commands.
    pub(crate) exec_outputs: OutputBudget,
    pub(crate) stats: Stats,
    pub(crate) image_usage: ImageUsage,
    pub(crate) metrics: Metrics,
    pub(crate) traces: Traces,
    /// This machine's cgroups; without them there are no statistics.
    pub(crate) hierarchies: Option<Arc<Hierarchies>>,
    /// The lowest oom_score_adj that can be set here; `None` if there is no limit.
    pub(crate) oom_floor: Option<i64>,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    /// The streaming server.
    pub(crate) streams: Server,
}

impl Deref for Shim {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl std::fmt::Debug for Shim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shim").finish_non_exhaustive()
    }
}

/// How long tasks may take to finish when the service stops.
const FAREWELL: Duration = Duration::from_secs(3);

impl Shim {
    /// Sets how long events are kept for subscribers that reconnect.
    pub fn keep_events(&self, time: Duration) {
        self.events.subscribers.keep(time);
    }

    /// Returns the metrics of calls to the engine.
    pub fn operations(&self) -> &Operations {
        self.docker.operations()
    }

    /// Returns the timelines of pod starts.
    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    /// Returns the timeline of a pod's start.
    pub(crate) fn trace_of(
        &self,
        sandbox: &str,
        pod: Option<&PodSandboxMetadata>,
        runtime: &str,
    ) -> Arc<Trace> {
        let name = || pod.map_or_else(String::new, |pod| format!("{}/{}", pod.namespace, pod.name));
        self.traces.of_pod(sandbox, name, runtime)
    }

    /// Stops the service; pods keep running.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(FAREWELL, self.tasks.wait()).await;
        self.logs.stop().await;
    }
}
