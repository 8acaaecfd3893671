//! The pods' cgroups: `kubepods`, beneath it the classes `burstable` and `besteffort`, beneath
//! those each pod, with what the pod as a whole may use.

mod files;
mod limits;
mod names;
mod slices;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use limits::Limits;
use names::Name;
use thiserror::Error;

use crate::config::{QosClass, qos_class};
use crate::manager::{CgroupDriver, CgroupOptions};
use crate::pod::Pod;

/// Why a pod has no cgroup.
#[derive(Debug, Error)]
pub(crate) enum CgroupError {
    #[error("{doing} the cgroup {path}: {source}")]
    Io {
        doing: &'static str,
        path: String,
        source: std::io::Error,
    },
    #[error("this node has no cgroups to speak of: {0}")]
    None(String),
    #[error("systemctl {command}: {why}")]
    Systemd { command: String, why: String },
}

/// The pods' cgroups.
#[derive(Debug)]
pub(crate) struct Cgroups {
    options: CgroupOptions,
    layout: files::Layout,
    /// Processors asked for by the burstable pods, in thousandths, by uid.
    burstable: Mutex<BTreeMap<String, i64>>,
}

impl Cgroups {
    /// Looks at what the kernel has. Blocks.
    pub(crate) fn new(options: CgroupOptions) -> Result<Self, CgroupError> {
        let layout = files::Layout::of_kernel()?;
        Ok(Self {
            options,
            layout,
            burstable: Mutex::default(),
        })
    }

    /// Whether the node has the unified hierarchy.
    pub(crate) fn unified(&self) -> bool {
        self.layout.is_unified()
    }

    /// Makes what the pods' cgroups are beneath.
    pub(crate) async fn prepare(&self, node_cpu_milli: u64) -> Result<(), CgroupError> {
        if !self.options.per_qos {
            return Ok(());
        }
        let cpu = i64::try_from(node_cpu_milli).unwrap_or(0);
        self.apply(&self.name(None, None), &Limits::of_shares(cpu))
            .await?;
        self.apply(
            &self.name(Some(QosClass::Burstable), None),
            &Limits::of_shares(0),
        )
        .await?;
        self.apply(
            &self.name(Some(QosClass::BestEffort), None),
            &Limits::of_shares(0),
        )
        .await
    }

    /// What the runtime is told: a path, or a slice's name.
    pub(crate) fn parent(&self, pod: &Pod) -> String {
        if !self.options.per_qos {
            return String::new();
        }
        let name = self.pod(pod);
        match self.options.driver {
            CgroupDriver::Cgroupfs => name.path(),
            CgroupDriver::Systemd => name.slice(),
        }
    }

    /// Makes a pod's cgroup, or brings it to what the pod may use now.
    pub(crate) async fn ensure(&self, pod: &Pod) -> Result<(), CgroupError> {
        if !self.options.per_qos {
            return Ok(());
        }
        let limits = Limits::of_pod(pod, self.options.pids_limit, self.options.cpu_quota);
        self.apply(&self.pod(pod), &limits).await?;
        if qos_class(pod) == QosClass::Burstable {
            let request = crate::config::pod_request(pod, "cpu").milli();
            self.share(&pod.metadata.uid, Some(request)).await?;
        }
        Ok(())
    }

    /// Removes a pod's cgroup, with what is left in it.
    pub(crate) async fn remove(&self, pod: &Pod) -> Result<(), CgroupError> {
        if !self.options.per_qos {
            return Ok(());
        }
        let name = self.pod(pod);
        if self.options.driver == CgroupDriver::Systemd {
            slices::stop(&name.slice()).await?;
        }
        let layout = self.layout.clone();
        let path = self.file_path(&name);
        blocking(move || layout.remove(&path)).await?;
        self.share(&pod.metadata.uid, None).await
    }

    /// Removes the cgroups of pods that nobody knows, if they are empty.
    pub(crate) async fn remove_unknown(&self, known: &BTreeSet<String>) {
        if !self.options.per_qos {
            return;
        }
        let systemd = self.options.driver == CgroupDriver::Systemd;
        let known: BTreeSet<String> = known
            .iter()
            .map(|uid| {
                if systemd {
                    uid.replace('-', "_")
                } else {
                    uid.clone()
                }
            })
            .collect();
        for class in [None, Some(QosClass::Burstable), Some(QosClass::BestEffort)] {
            let parent = self.file_path(&self.name(class, None));
            for child in self.layout.children(&parent) {
                let uid = if systemd {
                    child
                        .rsplit_once("-pod")
                        .and_then(|(_, uid)| uid.strip_suffix(".slice"))
                } else {
                    child.strip_prefix("pod")
                };
                let Some(uid) = uid.filter(|uid| !known.contains(*uid)) else {
                    continue;
                };
                tracing::info!(uid, "removing the cgroup of a pod that nobody knows");
                if systemd && let Err(error) = slices::stop(&child).await {
                    tracing::warn!(%error, "a slice stays");
                }
                let layout = self.layout.clone();
                let path = format!("{parent}/{child}");
                if let Err(error) = blocking(move || layout.remove(&path)).await {
                    tracing::warn!(%error, "a cgroup stays");
                }
            }
        }
    }

    /// The class of burstable pods has the shares of all of them.
    async fn share(&self, uid: &str, request: Option<i64>) -> Result<(), CgroupError> {
        let total: i64 = {
            let mut pods = self
                .burstable
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let changed = match request {
                Some(request) => pods.insert(uid.to_owned(), request) != Some(request),
                None => pods.remove(uid).is_some(),
            };
            if !changed {
                return Ok(());
            }
            pods.values().fold(0, |sum, n| sum.saturating_add(*n))
        };
        let class = self.name(Some(QosClass::Burstable), None);
        self.apply(&class, &Limits::of_shares(total)).await
    }

    async fn apply(&self, name: &Name, limits: &Limits) -> Result<(), CgroupError> {
        match self.options.driver {
            CgroupDriver::Systemd => slices::apply(&name.slice(), limits).await,
            CgroupDriver::Cgroupfs => {
                let (layout, limits) = (self.layout.clone(), limits.clone());
                let path = self.file_path(name);
                blocking(move || layout.apply(&path, &limits)).await
            }
        }
    }

    fn file_path(&self, name: &Name) -> String {
        match self.options.driver {
            CgroupDriver::Cgroupfs => name.path(),
            CgroupDriver::Systemd => name.slice_path(),
        }
    }

    fn pod(&self, pod: &Pod) -> Name {
        let class = Some(qos_class(pod)).filter(|class| *class != QosClass::Guaranteed);
        self.name(class, Some(&pod.metadata.uid))
    }

    fn name(&self, class: Option<QosClass>, uid: Option<&str>) -> Name {
        Name::new(&self.options.root, class, uid)
    }
}

async fn blocking(
    work: impl FnOnce() -> Result<(), CgroupError> + Send + 'static,
) -> Result<(), CgroupError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(CgroupError::None(
            "the work on it was broken off".to_owned(),
        )),
    }
}
