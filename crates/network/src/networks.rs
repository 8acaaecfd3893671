//! The networks of a node: attaching pods, detaching them, saying how it is.

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
/// Cheap to clone. Operations on one pod wait for each other; those on
/// different pods go on side by side. An operation once begun is carried to
/// its end even if its future is dropped: asking again joins it.
#[derive(Debug, Clone)]
pub struct Networks {
    inner: Arc<Inner>,
}

impl Networks {
    /// Reads the configuration and what is attached, and starts to watch.
    ///
    /// A missing or broken configuration is no error here: [`Self::status`]
    /// tells, and things get well when it does.
    pub fn open(config: Config) -> Result<Self, Error> {
        let inner = Arc::new(Inner::open(config)?);
        Ok(Self { inner })
    }

    /// Works by another configuration from now on. Where things are kept ([`Config::state_dir`],
    /// [`Config::cache_dir`]) stays.
    pub async fn reconfigure(&self, config: Config) {
        let inner = Arc::clone(&self.inner);
        // Fails only at the end of the process.
        let _ = orlop_pool::blocking(move || inner.reconfigure(config)).await;
    }

    /// Attaches a pod to the node's networks (or to those of its own
    /// configuration directory).
    ///
    /// If it is attached already, its network as it is. If that fails, nothing
    /// stays behind; where undoing fails too, [`Self::gc`] or
    /// [`Self::detach`] goes on with it.
    pub async fn attach(&self, pod: Attachment) -> Result<PodNetwork, Error> {
        let gate = self.inner.gates.pod(&pod.id).await;
        let dir = self.inner.conf_dir(&pod).clone();
        self.with_plugins(Work::Attach, &dir, move |inner| {
            let _held = gate;
            inner.attach(pod)
        })
        .await
    }

    /// Detaches a pod; `record` is what [`Self::attach`] gave, if the caller
    /// has it. Can be repeated, and works when the namespace is gone.
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

    /// Detaches a pod as far as it is noted that it was attached, wholly or in part: one whose
    /// attachment was undone, or never begun, costs no plugin a call that may fail.
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

    /// Verifies with the plugins that a pod's network is as it was made.
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

    /// Releases what belongs to no pod for which `is_valid` holds, and has the
    /// plugins do the same (the GC verb, where a network's version has it).
    ///
    /// `is_valid` is asked at the last moment: a pod whose record is written
    /// before it is attached is never taken for garbage. Other pods do not wait
    /// for a release, and those of one network no longer for its plugins' GC
    /// than each of them may take.
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

    /// What [`Self::gc`] would release.
    pub async fn orphans(
        &self,
        is_valid: impl Fn(&ContainerId) -> bool + Send + 'static,
    ) -> Result<Vec<Orphan>, Error> {
        self.blocking(move |inner| inner.orphans(&is_valid)).await
    }

    /// What is attached, finished or not.
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

    /// The names of the networks in use.
    pub fn names(&self) -> Vec<String> {
        let dir = &self.inner.config().conf_dir;
        self.inner
            .networks_of(dir)
            .map(|networks| networks.into_iter().map(|network| network.name).collect())
            .unwrap_or_default()
    }

    /// The networks in use, described; none while there is none.
    pub async fn describe(&self) -> Vec<NetworkSummary> {
        self.blocking(|inner| Ok(inner.describe()))
            .await
            .unwrap_or_default()
    }

    /// Where the networks are described.
    pub fn conf_dir(&self) -> PathBuf {
        self.inner.config().conf_dir.clone()
    }

    /// Takes the pod CIDR the control plane assigned to the node: renders
    /// [`Config::conf_template`] with it. Without a template nothing is done.
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

    /// Whether a pod with this configuration directory (the node's, if none) is attached without a
    /// program being run, as things are.
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

    /// Reads the configuration anew, not waiting for the watch to notice.
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

    /// The node's own files are worked with on threads that may block.
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
