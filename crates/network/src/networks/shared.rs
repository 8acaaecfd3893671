//! State that all handles to the networks of a node share: the current configuration and the parsed networks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Mutex as AsyncMutex;

use super::gates::Gates;
use super::host_ports::HostPorts;
use crate::cni::{Cache, NetworkConf};
use crate::journal::Journal;
use crate::plugins::Chain;
use crate::status::{RecentFailure, Status, StatusMemory};
use crate::store::Store;
use crate::watch::Watch;
use crate::{Attachment, Config, Error};

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) config: RwLock<Arc<Config>>,
    pub(super) store: Arc<Store>,
    pub(super) journal: Journal,
    pub(super) cache: Cache,
    pub(super) host_ports: HostPorts,
    status: Mutex<StatusMemory>,
    /// Held by the caller that asks the plugins for their status.
    pub(super) asking: Arc<AsyncMutex<()>>,
    recent: Mutex<RecentFailure>,
    pub(super) gates: Gates,
    watch: Mutex<Option<Watch>>,
}

impl Inner {
    pub(super) fn open(config: Config) -> Result<Self, Error> {
        let journal = Journal::open(&config.state_dir)?;
        let host_ports = HostPorts::new(journal.ids()?.iter().filter_map(|id| journal.get(id)));
        let store = Arc::new(Store::default());
        let watch = watch(&config, &store);
        Ok(Self {
            cache: Cache::new(&config.cache_dir),
            config: RwLock::new(Arc::new(config)),
            store,
            journal,
            host_ports,
            status: Mutex::default(),
            asking: Arc::default(),
            recent: Mutex::default(),
            gates: Gates::default(),
            watch: Mutex::new(watch),
        })
    }

    pub(super) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read())
    }

    pub(super) fn reconfigure(&self, mut config: Config) {
        let old = self.config();
        config.state_dir.clone_from(&old.state_dir);
        config.cache_dir.clone_from(&old.cache_dir);
        let mut watching = self.watch.lock();
        let config = Arc::new(config);
        *self.config.write() = Arc::clone(&config);
        // The cached status belongs to the old networks.
        *watching = watch(&config, &self.store);
        self.status.lock().forget();
    }

    /// Returns the networks to which a pod with this configuration directory is attached.
    pub(super) fn networks_of(&self, dir: &Path) -> Result<Vec<NetworkConf>, Error> {
        let config = self.config();
        let watched = dir == config.conf_dir
            || config
                .handler_conf_dirs
                .iter()
                .any(|handler| handler == dir);
        // A directory without a watch is read each time.
        let loaded = if watched {
            self.store.get(dir)
        } else {
            self.store.reload(dir)
        };
        let mut networks = loaded.networks.clone();
        networks.truncate(config.max_networks.max(1));
        if !networks.is_empty() {
            return Ok(networks);
        }
        // If there is a file, even an unusable one, its network is wanted instead of the default.
        if let Some(default) = config
            .default_network
            .as_ref()
            .filter(|_| dir == config.conf_dir && loaded.problems.is_empty())
        {
            let network = default.conf().map_err(|error| {
                Error::Invalid(format!(
                    "the default network: {}",
                    orlop_text::with_causes(&error)
                ))
            })?;
            return Ok(vec![network]);
        }
        let mut message = format!("no network configuration in {}", dir.display());
        if !loaded.problems.is_empty() {
            message = format!("{message} is usable: {}", loaded.problems.join("; "));
        }
        Err(Error::NotReady {
            reason: "NetworkPluginNotReady",
            message,
        })
    }

    pub(super) fn conf_dir(&self, pod: &Attachment) -> PathBuf {
        let own = pod.conf_dir.clone();
        own.unwrap_or_else(|| self.config().conf_dir.clone())
    }

    /// Reports whether pods can be attached, and the last failure. STATUS of a plugin does not report that it has no
    /// address left, or that it crashes.
    pub(super) fn status(&self) -> Status {
        let recent = self.recent.lock();
        let warning = recent.warning(Instant::now());
        drop(recent);
        match self.own_status() {
            Status::Ready { mut warnings } => {
                warnings.extend(warning);
                Status::Ready { warnings }
            }
            not_ready @ Status::NotReady { .. } => not_ready,
        }
    }

    pub(super) fn note_outcome<T>(&self, done: &Result<T, Error>) {
        let failure = match done {
            Ok(_) => None,
            Err(error @ Error::Plugin(_)) => Some(error.with_causes()),
            // This failure is not about the network.
            Err(_) => return,
        };
        let mut recent = self.recent.lock();
        recent.note(Instant::now(), failure);
    }

    fn own_status(&self) -> Status {
        let now = Instant::now();
        let generation = self.store.generation();
        let memory = || self.status.lock();
        if let Some(status) = memory().recall(now, generation) {
            return status;
        }
        let fresh = self.ask_status();
        memory().note(now, generation, fresh, self.config().status_grace)
    }

    /// Returns the status if the plugins give no answer: ready within the grace period.
    pub(super) fn reported(&self, message: String) -> Status {
        let (now, generation) = (Instant::now(), self.store.generation());
        let status = Status::NotReady {
            reason: "NetworkPluginNotReady",
            message,
        };
        let memory = self.status.lock();
        memory.within_grace(now, generation, status, self.config().status_grace)
    }

    fn ask_status(&self) -> Status {
        let config = self.config();
        let networks = match self.networks_of(&config.conf_dir) {
            Ok(networks) => networks,
            Err(Error::NotReady { reason, message }) => {
                return Status::NotReady { reason, message };
            }
            Err(error) => {
                let message = error.with_causes();
                return Status::NotReady {
                    reason: "NetworkPluginNotReady",
                    message,
                };
            }
        };
        for network in &networks {
            if let Err(error) = Chain::new(network, &config).and_then(|chain| chain.status()) {
                let message = orlop_text::with_causes(&*error);
                return Status::NotReady {
                    reason: "NetworkPluginNotReady",
                    message,
                };
            }
        }
        Status::Ready {
            warnings: self.store.get(&config.conf_dir).problems.clone(),
        }
    }
}

/// Reads the directories of a configuration, and watches them from then on.
fn watch(config: &Config, store: &Arc<Store>) -> Option<Watch> {
    let mut dirs = vec![config.conf_dir.clone()];
    dirs.extend(config.handler_conf_dirs.iter().cloned());
    let watch = Watch::start(dirs.clone(), store)
        .inspect_err(|error| {
            tracing::warn!(
                %error,
                "cannot watch the network configuration; changes take effect only after a restart"
            );
        })
        .ok();
    for dir in &dirs {
        store.reload(dir);
    }
    watch
}
