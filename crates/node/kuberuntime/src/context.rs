//! State that the workers of all pods share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use orlop_cri_api::client::{ClientError, ImageClient, RuntimeClient};
use orlop_cri_api::v1;
use orlop_kubelet_rules::backoff::Backoff;
use orlop_kubelet_rules::cri_config::{NodeFacts, SwapFacts};
use orlop_kubelet_rules::log_path::pod_directory;
use orlop_kubelet_rules::pod::Pod;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cgroups::Cgroups;
use crate::error::StartError;
use crate::event::{self, Change, Event, Severity};
use crate::image_manager::{ImageCollector, Images, PullRecords};
use crate::logs::LogLinks;
use crate::mailbox::Mailbox;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::runtime_state::{Handler, RuntimeState, VERSION};
use crate::userns::UserNamespaces;

/// How long the runtime may not answer before the node is unhealthy (`maxWaitForContainerRuntime`).
const RUNTIME_SILENCE: Duration = Duration::from_secs(30);
/// How long the list of all pods may be outdated; longer than the relist period with events.
const RELIST_SILENCE: Duration = Duration::from_mins(10);

pub(crate) type Workers = BTreeMap<String, Arc<Mailbox>>;

/// State that all parts of a manager share.
pub(crate) struct Context {
    pub(crate) options: Options,
    pub(crate) runtime: RuntimeClient,
    pub(crate) image_client: ImageClient,
    pub(crate) images: Images,
    pub(crate) pulls: Arc<PullRecords>,
    pub(crate) image_collector: tokio::sync::Mutex<ImageCollector>,
    pub(crate) runtime_name: String,
    pub(crate) metrics: Metrics,
    pub(crate) cgroups: Cgroups,
    pub(crate) user_namespaces: Arc<UserNamespaces>,
    pub(crate) log_links: LogLinks,
    pub(crate) facts: NodeFacts,
    /// The node's memory in bytes.
    pub(crate) memory: u64,
    pub(crate) swap: SwapFacts,
    /// The huge page sizes of the node, as the kernel writes them.
    pub(crate) hugepage_sizes: Vec<String>,
    /// Notified when a pod is gone: a pod of the same name may wait for that.
    pub(crate) pod_gone: Notify,
    /// Notified to request the runtime's state at once.
    pub(crate) runtime_asked: Notify,
    /// Changed when something runs that belongs to no worker.
    pub(crate) strangers: watch::Sender<u64>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    pub(crate) changes: broadcast::Sender<Change>,
    backoff: Mutex<Backoff>,
    workers: Mutex<Workers>,
    state: Mutex<State>,
    sources_ready: AtomicBool,
}

struct State {
    runtime: RuntimeState,
    /// The error message if the runtime now speaks another version of the interface.
    stranger: Option<String>,
    answered: Instant,
    relisted: Instant,
    strangers: BTreeSet<String>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("root_dir", &self.options.root_dir)
            .finish_non_exhaustive()
    }
}

/// The parts that a context is built from.
pub(crate) struct Parts {
    pub(crate) options: Options,
    pub(crate) runtime: RuntimeClient,
    pub(crate) image_client: ImageClient,
    pub(crate) images: Images,
    pub(crate) pulls: Arc<PullRecords>,
    pub(crate) state: RuntimeState,
    pub(crate) metrics: Metrics,
    pub(crate) cgroups: Cgroups,
    pub(crate) user_namespaces: Arc<UserNamespaces>,
    pub(crate) log_links: LogLinks,
    pub(crate) facts: NodeFacts,
    pub(crate) memory: u64,
    pub(crate) swap: SwapFacts,
    pub(crate) hugepage_sizes: Vec<String>,
}

impl Context {
    pub(crate) fn new(parts: Parts) -> Self {
        let now = Instant::now();
        Self {
            runtime_name: parts.state.name.clone(),
            backoff: Mutex::new(Backoff::new(
                parts.options.first_restart_backoff,
                parts.options.max_restart_backoff,
            )),
            options: parts.options,
            runtime: parts.runtime,
            image_client: parts.image_client,
            images: parts.images,
            pulls: parts.pulls,
            image_collector: tokio::sync::Mutex::default(),
            metrics: parts.metrics,
            cgroups: parts.cgroups,
            user_namespaces: parts.user_namespaces,
            log_links: parts.log_links,
            facts: parts.facts,
            memory: parts.memory,
            swap: parts.swap,
            hugepage_sizes: parts.hugepage_sizes,
            pod_gone: Notify::new(),
            runtime_asked: Notify::new(),
            strangers: watch::Sender::new(0),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            changes: broadcast::channel(event::BACKLOG).0,
            workers: Mutex::default(),
            state: Mutex::new(State {
                runtime: parts.state,
                stranger: None,
                answered: now,
                relisted: now,
                strangers: BTreeSet::new(),
            }),
            sources_ready: AtomicBool::new(false),
        }
    }

    pub(crate) fn with_workers<T>(&self, work: impl FnOnce(&mut Workers) -> T) -> T {
        let mut workers = self.workers.lock();
        work(&mut workers)
    }

    pub(crate) fn mailbox(&self, uid: &str) -> Option<Arc<Mailbox>> {
        self.with_workers(|workers| workers.get(uid).cloned())
    }

    pub(crate) fn backoff(&self) -> MutexGuard<'_, Backoff> {
        self.backoff.lock()
    }

    pub(crate) fn tell(&self, change: Change) {
        // Sending fails if there is no watcher.
        let _ = self.changes.send(change);
    }

    pub(crate) fn event(&self, event: Event) {
        let Event {
            namespace,
            name,
            reason,
            message,
            ..
        } = &event;
        match event.severity {
            Severity::Normal => {
                tracing::info!(pod = %format_args!("{namespace}/{name}"), reason, "{message}");
            }
            Severity::Warning => {
                tracing::warn!(pod = %format_args!("{namespace}/{name}"), reason, "{message}");
            }
        }
        self.tell(Change::Event(Arc::new(event)));
    }

    /// Returns the log directory of a pod.
    pub(crate) fn pod_logs(&self, pod: &Pod) -> PathBuf {
        self.options.pod_logs_dir.join(pod_directory(pod))
    }

    /// Whether another pod of the same name is being terminated.
    pub(crate) fn has_leaving_namesake(&self, own: &Arc<Mailbox>) -> bool {
        let name = own.full_name();
        self.with_workers(|workers| {
            workers.values().any(|other| {
                !Arc::ptr_eq(other, own)
                    && other.ending().borrow().is_some()
                    && other.full_name() == name
            })
        })
    }

    pub(crate) fn sources_are_ready(&self) -> bool {
        self.sources_ready.load(Ordering::Acquire)
    }

    pub(crate) fn set_sources_ready(&self) {
        self.sources_ready.store(true, Ordering::Release);
        self.strangers.send_modify(|n| *n += 1);
    }

    /// Notes a pod that has containers or a sandbox but no worker.
    pub(crate) fn stranger(&self, uid: &str) {
        let mut state = self.state();
        if state.strangers.len() > 4096 {
            state.strangers.clear();
        }
        if state.strangers.insert(uid.to_owned()) {
            drop(state);
            self.strangers.send_modify(|n| *n += 1);
        }
    }

    pub(crate) fn runtime_state(&self) -> RuntimeState {
        self.state().runtime.clone()
    }

    /// Stores the runtime's version, which changes if the runtime is replaced.
    pub(crate) fn note_version(&self, answer: v1::VersionResponse) {
        let mut state = self.state();
        let known = &state.runtime;
        if (&known.name, &known.version) != (&answer.runtime_name, &answer.runtime_version) {
            tracing::info!(
                before = format_args!("{} {}", known.name, known.version),
                now = format_args!("{} {}", answer.runtime_name, answer.runtime_version),
                "the runtime or its version changed"
            );
        }
        state.stranger =
            (answer.version != VERSION).then(|| StartError::Version(answer.version).to_string());
        let fresh = RuntimeState {
            name: answer.runtime_name,
            version: answer.runtime_version,
            ..state.runtime.clone()
        };
        drop(state);
        self.note_runtime(fresh);
    }

    pub(crate) fn network_error(&self) -> Option<String> {
        self.state().runtime.network_error.clone()
    }

    /// Finds a handler of the runtime; an empty name means the default handler.
    pub(crate) fn handler(&self, name: &str) -> Option<Handler> {
        let state = self.state();
        let mut handlers = state.runtime.handlers.iter();
        handlers.find(|handler| handler.name == name).cloned()
    }

    /// Stores the state that the runtime reported.
    pub(crate) fn note_runtime(&self, mut fresh: RuntimeState) {
        let mut state = self.state();
        if state.stranger.is_some() {
            fresh.runtime_error.clone_from(&state.stranger);
        }
        if state.runtime.runtime_error != fresh.runtime_error
            || state.runtime.network_error != fresh.network_error
        {
            let why = fresh
                .runtime_error
                .as_ref()
                .or(fresh.network_error.as_ref());
            if let Some(why) = why {
                tracing::warn!(why, "the runtime is not ready");
            } else {
                tracing::info!("the runtime is ready");
            }
        }
        let network_came = state.runtime.network_error.is_some() && fresh.network_error.is_none();
        state.runtime = fresh;
        state.answered = Instant::now();
        drop(state);
        if network_came {
            self.with_workers(|workers| workers.values().for_each(|worker| worker.ring()));
        }
    }

    /// Notes that the runtime did not answer, or answered with an error.
    pub(crate) fn runtime_trouble(&self, error: &ClientError) {
        tracing::debug!(%error, "a call to the runtime failed");
        let mut state = self.state();
        if state.answered.elapsed() >= RUNTIME_SILENCE {
            state.runtime.runtime_error = Some(format!("container runtime is down: {error}"));
        }
        drop(state);
        self.runtime_asked.notify_one();
    }

    pub(crate) fn relisted(&self) {
        let mut state = self.state();
        state.relisted = Instant::now();
        state.answered = Instant::now();
    }

    pub(crate) fn health(&self) -> Result<(), String> {
        let state = self.state();
        if let Some(why) = &state.runtime.runtime_error {
            return Err(why.clone());
        }
        if state.relisted.elapsed() > RELIST_SILENCE {
            return Err(format!(
                "PLEG is not healthy: pleg was last seen active {:?} ago; threshold is {RELIST_SILENCE:?}",
                state.relisted.elapsed()
            ));
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
