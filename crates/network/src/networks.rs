//! The networks of a node: attaches and detaches pods, and reports the status.

mod attach;
mod collect;
mod describe;
mod detach;
mod gates;
mod host_ports;
mod places;
mod shared;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_pool::{Ended, Refused};

use self::places::Work;
use self::shared::Inner;
use crate::journal::JournalEntry;
use crate::plugins::Chain;
use crate::{Attachment, Config, ContainerId, Error, PodNetwork, pod_cidr};

pub use self::collect::{GcReport, Orphan};
pub use self::describe::NetworkSummary;

/// The networks of a node.
///
/// Cheap to clone. Operations on one pod run one after the other; operations on different pods run in parallel. A
/// started operation runs to its end even if its future is dropped; a repeated call waits for it.
#[derive(Debug, Clone)]
pub struct Networks {
    inner: Arc<Inner>,
}

impl Networks {
    /// Reads the configuration and the journal, and starts to watch.
    ///
    /// A missing or broken configuration is not an error here: [`Self::status`] reports it, and a later fix takes
    /// effect.
    pub fn open(config: Config) -> Result<Self, Error> {
        let inner = Arc::new(Inner::open(config)?);
        Ok(Self { inner })
    }

    /// Replaces the configuration. The storage directories ([`Config::state_dir`], [`Config::cache_dir`]) do not
    /// change.
    pub async fn reconfigure(&self, config: Config) {
        let inner = Arc::clone(&self.inner);
        // Fails only when the process exits.
        let _ = orlop_pool::blocking(move || inner.reconfigure(config)).await;
    }

    /// Attaches a pod to the node's networks (or to those of its own configuration directory).
    ///
    /// If the pod is already attached, the call returns its network unchanged. A failed call leaves nothing behind;
    /// if the cleanup also fails, [`Self::gc`] or [`Self::detach`] repeats it.
    pub async fn attach(&self, pod: Attachment) -> Result<PodNetwork, Error> {
        let gate = self.inner.gates.pod(&pod.id).await;
        let dir = self.inner.conf_dir(&pod).clone();
        self.with_plugins(Work::Attach, &dir, move |inner| {
            let _held = gate;
            inner.attach(pod)
        })
        .await
    }

    /// Detaches a pod. `record` is the result of [`Self::attach`], if the caller has it. The call can be repeated,
    /// and works if the namespace is gone.
    pub async fn detach(&self, pod: &Attachment, record: Option<&PodNetwork>) -> Result<(), Error> {
        let gate = self.inner.gates.pod(&pod.id).await;
        let dir = self.inner.conf_dir(pod).clone();
        let pod = pod.clone();
        let record = record.cloned();
        self.with_plugins(Work::Detach, &dir, move |inner| {
            let _held = gate;
            inner.detach(&pod, record.as_ref())
        })
        .await
    }

    /// Detaches a pod if the journal says that it is attached, wholly or in part. Otherwise no plugin is called,
    /// which could fail.
    pub async fn detach_noted(&self, pod: &Attachment) -> Result<(), Error> {
        let gate = self.inner.gates.pod(&pod.id).await;
        let dir = self.inner.conf_dir(pod).clone();
        let pod = pod.clone();
        self.with_plugins(Work::Detach, &dir, move |inner| {
            let _held = gate;
            inner.detach_noted(&pod)
        })
        .await
    }

    /// Verifies with the plugins that a pod's network is unchanged.
    pub async fn check(&self, pod: &Attachment, record: &PodNetwork) -> Result<(), Error> {
        let gate = self.inner.gates.pod(&pod.id).await;
        let dir = self.inner.conf_dir(pod).clone();
        let pod = pod.clone();
        let record = record.clone();
        self.with_plugins(Work::Check, &dir, move |inner| {
            let _held = gate;
            inner.check(&pod, &record)
        })
        .await
    }

    /// Releases the resources of all pods for which `is_valid` returns false, and runs GC of the plugins (if the
    /// network's CNI version has it).
    ///
    /// `is_valid` is called at the last moment: a pod whose record is written before its attachment is never garbage.
    /// Other pods do not wait for a release. Pods of the same network wait for its plugins' GC at most for one
    /// plugin's timeout at a time.
    pub async fn gc(
        &self,
        is_valid: impl Fn(&ContainerId) -> bool + Send + 'static,
    ) -> Result<GcReport, Error> {
        let turn = self.inner.gates.turn_to_collect().await?;
        self.collecting(move |inner| {
            let _held = turn;
            inner.gc(&is_valid)
        })
        .await?
    }

    /// Lists the attachments that [`Self::gc`] would release.
    pub async fn orphans(
        &self,
        is_valid: impl Fn(&ContainerId) -> bool + Send + 'static,
    ) -> Result<Vec<Orphan>, Error> {
        self.blocking(move |inner| inner.orphans(&is_valid)).await
    }

    /// Lists all attachments, finished or not.
    pub async fn list(&self) -> Result<Vec<JournalEntry>, Error> {
        self.blocking(|inner| {
            Ok(inner
                .journal
                .ids()?
                .iter()
                .filter_map(|id| inner.journal.get(id))
                .collect())
        })
        .await
    }

    /// Returns the names of the networks in use.
    pub fn names(&self) -> Vec<String> {
        let dir = &self.inner.config().conf_dir;
        self.inner
            .networks_of(dir)
            .map(|networks| networks.into_iter().map(|network| network.name).collect())
            .unwrap_or_default()
    }

    /// Describes the networks in use; an empty list if there are none.
    pub async fn describe(&self) -> Vec<NetworkSummary> {
        self.blocking(|inner| Ok(inner.describe()))
            .await
            .unwrap_or_default()
    }

    /// Returns the directory of the network configurations.
    pub fn conf_dir(&self) -> PathBuf {
        self.inner.config().conf_dir.clone()
    }

    /// Renders [`Config::conf_template`] with the pod CIDR that the control plane assigned to the node. Does nothing
    /// without a template.
    pub async fn set_pod_cidr(&self, text: &str) -> Result<(), Error> {
        let cidrs = pod_cidr::parse(text)?;
        self.blocking(move |inner| {
            let config = inner.config();
            let Some(template) = &config.conf_template else {
                return Ok(());
            };
            pod_cidr::write(template, &config.conf_dir, &cidrs)?;
            inner.store.reload(&config.conf_dir);
            Ok(())
        })
        .await
    }

    /// Reports whether the plugins for this configuration directory (by default the node's) currently all run in
    /// process.
    pub fn is_in_process(&self, conf_dir: Option<&Path>) -> bool {
        let inner = &self.inner;
        let networks = inner.networks_of(conf_dir.unwrap_or(&inner.config().conf_dir));
        networks.is_ok_and(|networks| {
            let mut chains = networks.iter();
            chains.all(|network| {
                Chain::new(network, &inner.config()).is_ok_and(|chain| chain.is_in_process())
            })
        })
    }

    /// Reads the configuration again, without waiting for the watch.
    pub async fn reload(&self) -> Result<(), Error> {
        self.blocking(|inner| {
            let config = inner.config();
            inner.store.reload(&config.conf_dir);
            for dir in &config.handler_conf_dirs {
                inner.store.reload(dir);
            }
            Ok(())
        })
        .await
    }

    /// Runs work on the node's own files on threads that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let inner = Arc::clone(&self.inner);
        let task = orlop_pool::blocking(move || work(&inner));
        task.await.map_err(|ended| match ended {
            Ended::NoThread(source) => Refused::NoThread {
                place: "networks",
                source,
            }
            .into(),
            Ended::Panicked(_) => Error::Interrupted,
        })?
    }
}
