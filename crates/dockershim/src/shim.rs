//! The service and what its calls share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use orlop_cgroup::Hierarchies;
use orlop_cri_api::v1::{CreateContainerRequest, PodSandboxMetadata, RunPodSandboxRequest};
use orlop_cri_server::exec_output::OutputBudget;
use orlop_cri_server::joins::Joins;
use orlop_cri_server::timeline::{Metrics, Trace, Traces};
use orlop_image_store::ForeignImages;
use orlop_network::Networks;
use orlop_streaming::Server;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::checkpoints::Checkpoints;
use crate::config::{Config, NetworkPlugin};
use crate::docker::{Docker, Operations};
use crate::engine_info::InfoMemory;
use crate::error::{Error, Result};
use crate::events::Events;
use crate::exec::Execs;
use crate::log::Logs;
use crate::pause::Pause;
use crate::remembered::Remembered;
use crate::rpc::image_fs_info::Usage;
use crate::stats::Stats;
use crate::{limits, network, reconcile, streaming};

/// The CRI service over a Docker Engine. Cheap to clone.
#[derive(Clone)]
pub struct Shim(Arc<Inner>);

/// What all calls share.
pub struct Inner {
    pub(crate) config: Config,
    pub(crate) docker: Docker,
    pub(crate) checkpoints: Checkpoints,
    /// Only with the plugin `cni`.
    pub(crate) networks: Option<Networks>,
    /// The addresses of pods whose network was made here.
    pub(crate) addresses: Mutex<HashMap<String, Vec<IpAddr>>>,
    /// Which images may be used; `None`: any.
    pub(crate) policies: Option<ForeignImages>,
    pub(crate) pause: Pause,
    pub(crate) info: InfoMemory,
    pub(crate) remembered: Remembered,
    pub(crate) new_sandboxes: Joins<String, String, Error, RunPodSandboxRequest>,
    pub(crate) new_containers: Joins<String, String, Error, CreateContainerRequest>,
    pub(crate) logs: Logs,
    pub(crate) events: Events,
    pub(crate) execs: Execs,
    /// The memory for what commands print whose output is waited for.
    pub(crate) exec_outputs: OutputBudget,
    pub(crate) stats: Stats,
    pub(crate) usage: Usage,
    pub(crate) metrics: Metrics,
    pub(crate) traces: Traces,
    /// This machine's cgroups; without them there are no figures.
    pub(crate) hierarchies: Option<Arc<Hierarchies>>,
    /// The lowest oom_score_adj that can be set here, if not any.
    pub(crate) oom_floor: Option<i64>,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    streams: OnceLock<Server>,
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

/// A start is not held up longer by an engine that hangs.
const FIRST_WORD: Duration = Duration::from_secs(5);
/// Tasks get this long to end when the service stops.
const FAREWELL: Duration = Duration::from_secs(3);

impl Shim {
    /// Starts the service. An engine that is away is no error: `Status` tells, and everything
    /// gets well when it comes.
    pub async fn start(config: Config, metrics: Metrics) -> Result<Self> {
        let opening = config.clone();
        let opened = orlop_pool::blocking(move || open(&opening)).await;
        let (checkpoints, networks, hierarchies) = opened.map_err(|_| {
            Error::Internal("a task panicked while reading the sandbox records".to_owned())
        })??;
        let policies = match &config.policies {
            Some(images) => {
                let opened = ForeignImages::open(images.clone()).await;
                Some(opened.map_err(Error::image("reading the signature records"))?)
            }
            None => None,
        };
        let docker = Docker::new(config.endpoint.clone(), config.request_timeout);
        let shim = Self(Arc::new(Inner {
            docker,
            checkpoints,
            networks,
            policies,
            addresses: Mutex::default(),
            pause: Pause::default(),
            info: InfoMemory::default(),
            remembered: Remembered::default(),
            new_sandboxes: Joins::default(),
            new_containers: Joins::default(),
            logs: Logs::default(),
            events: Events::default(),
            execs: Execs::default(),
            exec_outputs: OutputBudget::new(
                config.containers.exec_output_memory,
                config.containers.message_limit,
            ),
            stats: Stats::default(),
            usage: Usage::default(),
            traces: Traces::new(metrics.clone()),
            metrics,
            hierarchies,
            oom_floor: limits::oom_floor(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            streams: OnceLock::new(),
            config,
        }));
        shim.keep_events(shim.config.event_backlog);
        let shim_too = shim.clone();
        let known = orlop_pool::blocking(move || {
            let file = &shim_too.config.listeners;
            shim_too.events.subscribers.survive_in(file);
        });
        known.await.map_err(|_| {
            Error::Internal("a task panicked while reading the event listeners".to_owned())
        })?;
        shim.check_engine().await?;
        network::remember(&shim).await;
        let streams = streaming::listen(&shim).await?;
        // Set once, here.
        let _ = shim.streams.set(streams);
        shim.tasks.spawn(reconcile::run(shim.clone()));
        Ok(shim)
    }

    /// How long events are kept for listeners that come back.
    pub fn keep_events(&self, time: Duration) {
        self.events.subscribers.keep(time);
    }

    /// A cgroup driver that does not match is refused at once; an engine that is away cannot be
    /// asked.
    async fn check_engine(&self) -> Result<()> {
        let asked = tokio::time::timeout(FIRST_WORD, self.cgroup_driver()).await;
        let answer = asked.unwrap_or_else(|_| {
            let problem = format!("the Docker Engine did not answer within {FIRST_WORD:?}");
            Err(Error::Timeout(problem).into())
        });
        match answer {
            Err(error) if matches!(*error, Error::Precondition(_)) => Err(error),
            Err(error) => {
                tracing::warn!(error = %crate::error::chain(&*error), "starting without a connection to the Docker Engine");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// The streaming server.
    pub(crate) fn streams(&self) -> Result<&Server> {
        self.streams.get().ok_or_else(|| {
            Error::Precondition("the streaming server is not running yet".to_owned()).into()
        })
    }

    /// What was counted of calls to the engine.
    pub fn operations(&self) -> &Operations {
        self.docker.operations()
    }

    /// Where the time of pods' starts went.
    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    /// The timeline of a pod's start.
    pub(crate) fn trace_of(
        &self,
        sandbox: &str,
        pod: Option<&PodSandboxMetadata>,
        runtime: &str,
    ) -> Arc<Trace> {
        let name = || pod.map_or_else(String::new, |pod| format!("{}/{}", pod.namespace, pod.name));
        self.traces.of_pod(sandbox, name, runtime)
    }

    /// Lets go of everything; pods go on.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(FAREWELL, self.tasks.wait()).await;
        self.logs.stop().await;
    }
}

type Opened = (Checkpoints, Option<Networks>, Option<Arc<Hierarchies>>);

fn open(config: &Config) -> Result<Opened> {
    let doing = format!(
        "creating the checkpoint directory in {}",
        config.root.display()
    );
    let checkpoints = Checkpoints::open(&config.root).map_err(Error::io(doing))?;
    let networks = match config.plugin {
        NetworkPlugin::Cni => {
            let opened = Networks::open(config.network.clone());
            Some(opened.map_err(|source| Error::Network {
                doing: "reading the network records of the pods".to_owned(),
                source,
            })?)
        }
        NetworkPlugin::None | NetworkPlugin::Bridge => None,
    };
    let hierarchies = Hierarchies::detect()
        .inspect_err(|error| tracing::warn!(%error, "cannot find the cgroup filesystem; statistics are not available"))
        .ok()
        .map(Arc::new);
    Ok((checkpoints, networks, hierarchies))
}
