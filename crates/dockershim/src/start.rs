//! Starts the service: creates its parts from the bottom up, then subscribes to the events of the Docker Engine.

use std::sync::Arc;
use std::time::Duration;

use orlop_cgroup::Hierarchies;
use orlop_cri_server::exec_output::OutputBudget;
use orlop_cri_server::joins::Joins;
use orlop_cri_server::timeline::{Metrics, Traces};
use orlop_image_store::ForeignImages;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::checkpoints::Checkpoints;
use crate::config::Config;
use crate::docker::Docker;
use crate::engine_info::EngineInfo;
use crate::engine_return::EngineReturn;
use crate::error::{Error, Result, chain};
use crate::events::Events;
use crate::exec::Execs;
use crate::image_usage::ImageUsage;
use crate::log::Logs;
use crate::network::PodNetwork;
use crate::pause::Pause;
use crate::pull::Puller;
use crate::remembered::Remembered;
use crate::shim::{Inner, Shim};
use crate::stats::Stats;
use crate::{limits, reconcile, streaming};

/// How long an unresponsive engine may delay the start.
const FIRST_WORD: Duration = Duration::from_secs(5);

impl Shim {
    /// Starts the service. An unreachable engine is no error: `Status` reports it, and the service recovers when the
    /// engine comes.
    pub async fn start(config: Config, metrics: Metrics) -> Result<Self> {
        let files = Files::open(&config).await?;
        let policies = match &config.policies {
            Some(images) => {
                let opened = ForeignImages::open(images.clone()).await;
                Some(opened.map_err(Error::image("reading the signature records"))?)
            }
            None => None,
        };
        let inner = Inner::new(config, metrics, files, policies).await?;
        let shim = Self(Arc::new(inner));
        shim.tasks.spawn(reconcile::run(shim.clone()));
        Ok(shim)
    }
}

impl Inner {
    async fn new(
        config: Config,
        metrics: Metrics,
        files: Files,
        policies: Option<ForeignImages>,
    ) -> Result<Self> {
        let Files {
            checkpoints,
            network,
            hierarchies,
        } = files;
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let docker = Docker::new(config.endpoint.clone(), config.request_timeout);
        let docker = Arc::new(docker);
        let engine = || Arc::clone(&docker);
        let info = EngineInfo::new(engine(), tasks.clone(), config.cgroup_driver);
        let engine_return = EngineReturn::default();
        let events = Events::new(engine(), info.clone(), Arc::clone(&network));
        let events = find_listeners(events, &config).await?;
        check_engine(&info).await?;
        network.remember().await;
        let execs = Execs::new(engine(), hierarchies.clone(), tasks.clone(), stop.clone());
        let execs = Arc::new(execs);
        let streams = streaming::listen(&config.streaming, engine(), Arc::clone(&execs)).await?;
        let (files, patience) = (&config.credential_files, config.pull_progress_deadline);
        let puller = Puller::new(engine(), files, patience);
        let pause = config.pause_image.as_deref();
        let pause = Pause::new(pause, policies.clone(), puller.clone(), info.clone());
        let longest_line = config.containers.max_log_line;
        Ok(Self {
            checkpoints,
            network,
            policies,
            puller,
            pause,
            remembered: Remembered::default(),
            new_sandboxes: Joins::default(),
            new_containers: Joins::default(),
            logs: Logs::new(engine(), engine_return.clone(), longest_line),
            events,
            execs,
            exec_outputs: OutputBudget::new(
                config.containers.exec_output_memory,
                config.containers.message_limit,
            ),
            stats: Stats::new(engine(), info.clone(), hierarchies.clone()),
            image_usage: ImageUsage::new(engine(), info.clone()),
            traces: Traces::new(metrics.clone()),
            metrics,
            hierarchies,
            oom_floor: limits::oom_floor(),
            stop,
            tasks,
            streams,
            info,
            engine_return,
            config,
            docker,
        })
    }
}

/// Loads the event subscribers of an earlier run.
async fn find_listeners(events: Events, config: &Config) -> Result<Events> {
    events.subscribers.keep(config.event_backlog);
    let file = config.listeners.clone();
    let known = orlop_pool::blocking(move || {
        events.subscribers.survive_in(&file);
        events
    });
    Ok(known.await.map_err(|_| {
        Error::Internal("a task panicked while reading the event listeners".to_owned())
    })?)
}

/// Rejects a cgroup driver that does not match. An unreachable engine is not checked.
async fn check_engine(info: &EngineInfo) -> Result<()> {
    let asked = tokio::time::timeout(FIRST_WORD, info.cgroup_driver()).await;
    let answer = asked.unwrap_or_else(|_| {
        let problem = format!("the Docker Engine did not answer within {FIRST_WORD:?}");
        Err(Error::Timeout(problem).into())
    });
    match answer {
        Err(error) if matches!(*error, Error::Precondition(_)) => Err(error),
        Err(error) => {
            tracing::warn!(error = %chain(&*error), "starting without a connection to the Docker Engine");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// State read from this machine's files.
struct Files {
    checkpoints: Checkpoints,
    network: Arc<PodNetwork>,
    hierarchies: Option<Arc<Hierarchies>>,
}

impl Files {
    async fn open(config: &Config) -> Result<Self> {
        let config = config.clone();
        let opened = orlop_pool::blocking(move || Self::read(&config)).await;
        opened.map_err(|_| {
            Error::Internal("a task panicked while reading the sandbox records".to_owned())
        })?
    }

    fn read(config: &Config) -> Result<Self> {
        let doing = format!(
            "creating the checkpoint directory in {}",
            config.root.display()
        );
        let checkpoints = Checkpoints::open(&config.root).map_err(Error::io(doing))?;
        let network = Arc::new(PodNetwork::open(config)?);
        let hierarchies = Hierarchies::detect()
            .inspect_err(|error| tracing::warn!(%error, "cannot find the cgroup filesystem; statistics are not available"))
            .ok()
            .map(Arc::new);
        Ok(Self {
            checkpoints,
            network,
            hierarchies,
        })
    }
}
