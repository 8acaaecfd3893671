//! The manager: starts a worker for each pod, and the tasks that serve all pods.

use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::client::{ClientOptions, Connection, ImageClient, RuntimeClient};
use orlop_cri_api::v1;
use orlop_kubelet_rules::cri_config::SwapFacts;
use tonic::Code;

use super::local::Local;
use crate::context::{Context, Parts};
use crate::error::{RequestError, StartError};
use crate::event::Watch;
use crate::image_manager::{Images, PullRecords};
use crate::mailbox::{Cause, Ending, Mailbox};
use crate::metrics::Metrics;
use crate::options::{CgroupDriver, Options};
use crate::pod_input::PodInput;
use crate::pod_view::{PodView, Stage};
use crate::pod_worker::run;
use crate::runtime_state::{RuntimeState, VERSION};
use crate::{housekeeping, pleg};

/// The kubelet's side of a CRI runtime. Cheap to clone; clones share one manager.
#[derive(Debug, Clone)]
pub struct Manager {
    pub(super) ctx: Arc<Context>,
}

impl Manager {
    /// Connects to the runtime, reads the checkpoints and resumes their pods.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let metrics = Metrics::new();
        let client = ClientOptions {
            timeout: options.request_timeout,
            observer: Some(metrics.observer()),
            ..ClientOptions::default()
        };
        let connection = Connection::new(options.runtime_endpoint.clone(), client.clone());
        let image_client = options.image_endpoint.clone().map_or_else(
            || connection.images(),
            |endpoint| Connection::new(endpoint, client).images(),
        );
        let runtime = connection.runtime();
        let version = runtime.version().await.map_err(StartError::Runtime)?;
        if version.version != VERSION {
            return Err(StartError::Version(version.version));
        }
        image_client
            .image_fs_info()
            .await
            .map_err(StartError::Images)?;
        let mut options = options;
        follow_driver(&mut options, &runtime).await?;
        let local = {
            let options = options.clone();
            orlop_pool::blocking(move || Local::prepare(&options))
        };
        let local = local
            .await
            .map_err(|e| StartError::Setting(e.to_string()))??;
        let pulls = Arc::new(local.pulls);
        settle(&pulls, &image_client).await;
        let ctx = Arc::new(Context::new(Parts {
            images: Images::new(
                image_client.clone(),
                options.images.clone(),
                options.root_dir.clone(),
                local.providers,
                Arc::clone(&pulls),
            ),
            pulls,
            facts: local.machine.facts(&options.node),
            memory: local.machine.memory,
            swap: SwapFacts {
                behavior: options.swap,
                memory: local.machine.memory,
                swap: local.machine.swap,
                can_limit: local.machine.can_limit_swap,
                unified: local.cgroups.unified(),
            },
            hugepage_sizes: local.machine.hugepage_sizes,
            state: RuntimeState {
                name: version.runtime_name,
                version: version.runtime_version,
                ..RuntimeState::default()
            },
            cgroups: local.cgroups,
            user_namespaces: Arc::new(local.user_namespaces),
            log_links: local.log_links,
            options,
            runtime,
            image_client,
            metrics,
        }));
        let prepared = ctx.cgroups.prepare(local.machine.cpu_milli).await;
        prepared.map_err(|e| StartError::Setting(e.to_string()))?;
        housekeeping::ask_runtime(&ctx).await;
        let manager = Self { ctx };
        for input in local.known {
            manager.take(input, false);
        }
        manager.spawn(pleg::run(manager.ctx.clone()));
        manager.spawn(housekeeping::watch_runtime(manager.ctx.clone()));
        manager.spawn(housekeeping::collect(manager.ctx.clone()));
        manager.spawn(housekeeping::collect_images(manager.ctx.clone()));
        manager.spawn(housekeeping::rotate_logs(manager.ctx.clone()));
        Ok(manager)
    }

    /// Adds or updates a pod. If a pod with this uid is being removed, or another pod of its name
    /// is terminating, the worker waits for that.
    pub fn set_pod(&self, input: PodInput) {
        self.take(input, true);
    }

    /// Declares that all sources have been read once: pods that run but have not been named are
    /// stopped.
    pub fn sources_ready(&self) {
        let unnamed = self.ctx.with_workers(|workers| {
            let unnamed = workers.values().filter(|worker| !worker.is_confirmed());
            unnamed.cloned().collect::<Vec<_>>()
        });
        for mailbox in unnamed {
            mailbox.end(Ending {
                cause: Cause::Removed,
                grace: None,
            });
        }
        self.ctx.set_sources_ready();
    }

    /// Stops a pod and forgets it. `grace` overrides the pod's own grace period; a later call can
    /// shorten it.
    pub fn remove_pod(&self, uid: &str, grace: Option<Duration>) {
        self.end(uid, Cause::Removed, grace);
    }

    /// Stops a pod and shows it as failed with this reason. `grace` overrides the pod's own grace
    /// period.
    pub fn fail_pod(&self, uid: &str, reason: &str, message: &str, grace: Option<Duration>) {
        let cause = Cause::Failed {
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        self.end(uid, cause, grace);
    }

    /// Shows a pod that failed admission as failed; nothing is created for it.
    pub fn reject_pod(&self, input: PodInput, reason: &str, message: &str) {
        self.ctx.metrics.pods().rejected(reason);
        let ending = Ending {
            cause: Cause::Failed {
                reason: reason.to_owned(),
                message: message.to_owned(),
            },
            grace: None,
        };
        let fresh = self.ctx.with_workers(|workers| {
            if let Some(mailbox) = workers.get(input.uid()) {
                mailbox.end(ending.clone());
                return None;
            }
            let mailbox = Arc::new(Mailbox::new(input, true));
            mailbox.end(ending.clone());
            workers.insert(mailbox.uid.clone(), mailbox.clone());
            Some(mailbox)
        });
        if let Some(mailbox) = fresh {
            self.ctx.tasks.spawn(run(self.ctx.clone(), mailbox));
        }
    }

    /// Returns all pods, sorted by namespace and name.
    pub fn pods(&self) -> Vec<Arc<PodView>> {
        let mut views: Vec<_> = self.ctx.with_workers(|workers| {
            let views = workers.values().filter_map(|worker| worker.view());
            views.collect()
        });
        views.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        views
    }

    /// Returns a pod by uid.
    pub fn pod(&self, uid: &str) -> Option<Arc<PodView>> {
        self.ctx.mailbox(uid)?.view()
    }

    /// Finds a pod by namespace and name; prefers one that is not terminating.
    pub fn find_pod(&self, namespace: &str, name: &str) -> Option<Arc<PodView>> {
        let pods = self.pods().into_iter();
        pods.filter(|pod| pod.namespace == namespace && pod.name == name)
            .min_by_key(|pod| pod.stage != Stage::Syncing)
    }

    /// Subscribes to changes from now on.
    pub fn watch(&self) -> Watch {
        Watch(self.ctx.changes.subscribe())
    }

    /// Waits until each pod is ready or finished and none is being removed, for at most `limit`;
    /// returns whether that happened.
    pub async fn settled(&self, limit: Duration) -> bool {
        let mut watch = self.ctx.changes.subscribe();
        let wait = async {
            loop {
                let all = self.ctx.with_workers(|workers| {
                    workers.values().all(|worker| {
                        let leaving = matches!(
                            &*worker.ending().borrow(),
                            Some(Ending {
                                cause: Cause::Removed,
                                ..
                            })
                        );
                        let done =
                            |view: Arc<PodView>| view.ready || view.stage == Stage::Terminated;
                        !leaving && worker.view().is_some_and(done)
                    })
                });
                if all
                    || watch.recv().await == Err(tokio::sync::broadcast::error::RecvError::Closed)
                {
                    return;
                }
            }
        };
        tokio::time::timeout(limit, wait).await.is_ok()
    }

    /// Returns the client of the runtime, for calls that the manager does not make itself.
    pub fn runtime(&self) -> &RuntimeClient {
        &self.ctx.runtime
    }

    /// Returns the client of the image service.
    pub fn images(&self) -> &ImageClient {
        &self.ctx.image_client
    }

    /// Returns the options that the manager was started with.
    pub fn options(&self) -> &Options {
        &self.ctx.options
    }

    /// Returns the last known state of the runtime. The manager requests it every 30 s while the
    /// runtime is ready; otherwise every 5 s, and when a call fails.
    pub fn runtime_state(&self) -> RuntimeState {
        self.ctx.runtime_state()
    }

    /// Returns the manager's own health for `/healthz`. It is unhealthy if the runtime is not ready
    /// or does not answer for 30 s, or if no list of all pods succeeds for 10 min.
    pub fn health(&self) -> Result<(), String> {
        self.ctx.health()
    }

    fn take(&self, input: PodInput, confirmed: bool) {
        let fresh = self.ctx.with_workers(|workers| {
            if let Some(mailbox) = workers.get(input.uid()) {
                mailbox.set(input);
                return None;
            }
            let mailbox = Arc::new(Mailbox::new(input, confirmed));
            workers.insert(mailbox.uid.clone(), mailbox.clone());
            Some(mailbox)
        });
        if let Some(mailbox) = fresh {
            self.ctx.tasks.spawn(run(self.ctx.clone(), mailbox));
        }
    }

    fn end(&self, uid: &str, cause: Cause, grace: Option<Duration>) {
        if let Some(mailbox) = self.ctx.mailbox(uid) {
            mailbox.end(Ending { cause, grace });
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.ctx.stop.clone();
        self.ctx.tasks.spawn(async move {
            tokio::select! {
                () = task => {}
                () = stop.cancelled() => {}
            }
        });
    }

    pub(super) fn worker(&self, uid: &str) -> Result<Arc<Mailbox>, RequestError> {
        self.ctx
            .mailbox(uid)
            .ok_or_else(|| RequestError::NoPod(uid.to_owned()))
    }
}

/// Records images whose pull ended while the manager was not running.
async fn settle(pulls: &Arc<PullRecords>, images: &ImageClient) {
    let list = match images.list_images(None).await {
        Ok(list) => list,
        Err(error) => {
            tracing::warn!(%error, "cannot find out which earlier image pulls are complete");
            return;
        }
    };
    let pulls = Arc::clone(pulls);
    // It only reads and writes small files.
    let _ = orlop_pool::blocking(move || pulls.settle(&list)).await;
}

/// Adopts the runtime's cgroup driver, if the runtime reports it.
async fn follow_driver(options: &mut Options, runtime: &RuntimeClient) -> Result<(), StartError> {
    let told = match runtime.runtime_config().await {
        Ok(answer) => answer.linux.map(|linux| linux.cgroup_driver()),
        // Runtimes older than Kubernetes 1.28 do not report it.
        Err(error) if error.code() == Code::Unimplemented => None,
        Err(error) => return Err(StartError::Runtime(error)),
    };
    let Some(told) = told else {
        return Ok(());
    };
    let driver = match told {
        v1::CgroupDriver::Systemd => CgroupDriver::Systemd,
        v1::CgroupDriver::Cgroupfs => CgroupDriver::Cgroupfs,
    };
    if driver != options.cgroups.driver {
        tracing::info!(?driver, "using the cgroup driver of the runtime");
        options.cgroups.driver = driver;
    }
    Ok(())
}
