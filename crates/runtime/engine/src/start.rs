//! Start and stop of the native service.

use std::fs::Permissions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use orlop_cgroup::Driver;
use orlop_cri_server::exec_output::OutputBudget;
use orlop_cri_server::joins::Joins;
use orlop_image_store::Images;
use orlop_launch::ProtectedPrograms;
use orlop_network::Networks;
use orlop_nri::Nri;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use crate::after_restart::{abandoned_trials, restore, tidy};
use crate::blocking;
use crate::config::Config;
use crate::engine::Engine;
use crate::error::{Error, Result, chain};
use crate::events::Events;
use crate::node::cgroups::Cgroups;
use crate::node::cgroups::KEEPER_OOM_SCORE;
use crate::node::commands::Commands;
use crate::node::metrics::Metrics;
use crate::node::paths::{Paths, private_dir};
use crate::node::rdt;
use crate::node::runtimes::{self, Runtimes};
use crate::node::selinux_levels::AllottedLevels;
use crate::node::{Node, Settings};
use crate::nri::PluginRuntime;
use crate::pod::network_gc;
use crate::record::directories::make_private_dir;
use crate::record::store::Store;
use crate::spec::{AppArmor, HostFacts};
use crate::streaming::Sessions;
use crate::timeline::Traces;

/// Time limit for retries of runtime tests if no process can be made. Other programs that start at the
/// same time may use all processes for a moment; a daemon that exits for that would have to be restarted.
const MOMENT: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(250);

impl Engine {
    /// Opens the stores, finds the runtimes, and recovers the state that an earlier run left.
    pub async fn start(mut config: Config, metrics: Metrics) -> Result<Self> {
        let directories = config.clone();
        // A pod has up to five descriptors, and each of its clients one.
        if let Err(error) = orlop_launch::raise_open_files() {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
        blocking(move || prepare_directories(&directories)).await?;
        let (cgroups, host) = {
            let config = config.clone();
            blocking(move || {
                let cgroups = Cgroups::find(&config)?;
                let host =
                    HostFacts::detect(cgroups.hierarchies(), cgroups.driver(), default_apparmor())
                        .map_err(Error::io("inspecting the node"))?;
                Ok((cgroups, host))
            })
            .await?
        };
        let cgroup_driver = cgroups.driver();
        let paths = Paths::new(&config.containers_root, &config.state);
        let (mut classes, record) = (config.containers.policy.rdt.take(), paths.rdt_groups());
        let others = config.containers.policy.rdt_classes.clone();
        config.containers.policy.rdt = blocking(move || {
            rdt::begin(&mut classes, &others, &record);
            Ok(classes)
        })
        .await?;
        // Concurrently: each waits for the disk or for programs.
        let (few_mounts, images, networks, runtimes) = tokio::join!(
            make_few_mounts(),
            open_images(&config, &cgroups, &host),
            open_networks(&config),
            find_runtimes(&config, cgroup_driver),
        );
        cgroups.remove_trials().await;
        let few_mounts = few_mounts?;
        let (images, networks, runtimes) = (images?, networks?, runtimes?);
        let nri = Nri::new(config.nri.clone(), metrics.plugins().clone());
        let exec_outputs = OutputBudget::new(
            config.containers.exec_output_memory,
            config.containers.message_limit,
        );
        let node = Arc::new(Node {
            paths,
            settings: Settings::new(config),
            cgroups,
            host,
            pods: Store::new("pod sandbox"),
            containers: Store::new("container"),
            images,
            pulls: Arc::default(),
            networks,
            few_mounts,
            programs: ProtectedPrograms::default(),
            spare_net: Arc::default(),
            container_started: Notify::new(),
            runtimes,
            levels: AllottedLevels::default(),
            events: Events::default(),
            traces: Traces::new(metrics.timeline.clone()),
            nri,
            metrics,
            commands: Commands::default(),
            exec_outputs,
            sandboxes: Joins::default(),
            creations: Joins::default(),
            works: Joins::default(),
            tasks: TaskTracker::new(),
            streams: OnceLock::new(),
        });
        let of_containers = Arc::downgrade(&node);
        node.images.find_images_by(move |container| {
            let container = of_containers.upgrade()?.containers.exactly(container)?;
            container.image.id.parse().ok()
        });
        node.events.keep(node.config().event_backlog);
        let node_too = Arc::clone(&node);
        blocking(move || {
            node_too.events.survive_in(&node_too.paths.listeners());
            Ok(())
        })
        .await?;
        let left = restore::run(&node).await?;
        serve_streams(&node).await?;
        let plugins_see = PluginRuntime(Arc::downgrade(&node));
        node.nri.start(Arc::new(plugins_see)).await;
        let node_too = Arc::clone(&node);
        node.tasks
            .spawn(async move { tidy::run(&node_too, left).await });
        let node_too = Arc::clone(&node);
        node.tasks
            .spawn(async move { runtimes::warn_of_problems(&node_too.config()).await });
        network_gc::start(&node);
        Ok(Self(node))
    }

    /// Closes what the daemon holds; pods keep running. On a node without pods nothing is left behind.
    pub async fn stop(&self) {
        let Self(node) = self;
        node.nri.stop().await;
        node.images.close().await;
        if node.pods.all().iter().any(|pod| pod.now().keeper.is_some()) {
            return;
        }
        let private = node.paths.private();
        let unmounted = blocking(move || {
            rustix::mount::unmount(&private, rustix::mount::UnmountFlags::NOFOLLOW)
                .map_err(|errno| {
                    Error::io(format!("unmounting {}", private.display()))(errno.into())
                })
                .map_err(Into::into)
        });
        if let Err(error) = unmounted.await {
            tracing::debug!(
                error = chain(&*error),
                "cannot unmount the private directory; it stays mounted"
            );
        }
    }
}

async fn serve_streams(node: &Arc<Node>) -> Result<()> {
    let config = node.config();
    let serving = config.streaming.serve(Sessions(Arc::downgrade(node)));
    let server = serving.await.map_err(Error::Internal)?;
    // No other code sets it.
    let _ = node.streams.set(Arc::new(server));
    Ok(())
}

async fn find_runtimes(config: &Config, driver: Driver) -> Result<Runtimes> {
    let usual = runtimes::usual(config, driver);
    abandoned_trials::end(&config.state, &usual).await;
    let by = Instant::now() + MOMENT;
    loop {
        match Runtimes::find(config, driver).await {
            Err(error) if matches!(*error, Error::Exhausted(_)) && Instant::now() < by => {
                let why = chain(&*error);
                tracing::warn!(why, "cannot test the runtimes now; trying again");
                sleep(AGAIN).await;
            }
            found => return found,
        }
    }
}

/// Completes the configuration of the image store.
pub fn of_images(config: &Config, cgroups: &Cgroups) -> orlop_image_store::Config {
    let mut images = config.images.clone();
    // Like keepers, the server of lazy layers outlives the daemon, and serves all pods.
    images.lazy.cgroups = cgroups.for_keepers();
    images.lazy.oom_score_adj = Some(KEEPER_OOM_SCORE);
    images
}

/// Opens a mount namespace with few mounts. Without it, pods have copies of all mounts of the node.
async fn make_few_mounts() -> Result<Option<Arc<OwnedFd>>> {
    blocking(|| match orlop_launch::few_mounts() {
        Ok(namespace) => Ok(Some(Arc::new(namespace))),
        Err(error) => {
            tracing::debug!(
                %error,
                "cannot create a minimal mount namespace; each pod gets a copy of all mounts of \
                 the node"
            );
            Ok(None)
        }
    })
    .await
}

async fn open_images(config: &Config, cgroups: &Cgroups, host: &HostFacts) -> Result<Images> {
    let mut images = of_images(config, cgroups);
    images.label = host.selinux.as_ref().and_then(|it| it.layers.clone());
    let opened = Images::open(images).await;
    opened.map_err(|source| {
        Error::Image {
            doing: "opening the image store".into(),
            source,
        }
        .into()
    })
}

async fn open_networks(config: &Config) -> Result<Networks> {
    let config = config.network.clone();
    blocking(move || {
        Networks::open(config).map_err(|source| {
            let doing = "opening the record of network attachments".into();
            Error::Network { doing, source }.into()
        })
    })
    .await
}

/// Loads the default AppArmor profile. If that fails, only pods that ask for it are refused.
fn default_apparmor() -> Option<String> {
    if !AppArmor::is_enabled() {
        return None;
    }
    let loaded = AppArmor::load_default();
    loaded
        .inspect_err(|error| tracing::warn!(%error, "cannot load the default AppArmor profile"))
        .ok()
}

fn prepare_directories(config: &Config) -> Result<()> {
    let (root, state) = (&config.containers_root, &config.state);
    for path in [root.join("pods"), state.join("pods"), state.join("netns")] {
        make_private_dir(&path)?;
    }
    for dir in [&config.root, root, state] {
        orlop_fs::prepare_probe(dir).map_err(Error::io(format!("writing to {}", dir.display())))?;
    }
    // Writable layers contain what root in containers left there, including setuid programs: no other user of
    // the node may reach them.
    let pods = root.join("pods");
    std::fs::set_permissions(&pods, Permissions::from_mode(0o700)).map_err(Error::io(format!(
        "restricting access to {}",
        pods.display()
    )))?;
    orlop_launch::make_private_dir(&private_dir(state)).map_err(|source| {
        Error::Launch {
            doing: "preparing the state directory".into(),
            source,
        }
        .into()
    })
}
