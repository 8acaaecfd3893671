//! The pods' cgroups, as in the kubelet's `podContainerManager`: `kubepods` contains the QoS
//! classes `burstable` and `besteffort`, which contain a cgroup with limits for each pod.

mod files;
mod limits;
mod names;
mod slices;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use limits::Limits;
use names::Name;
use orlop_kubelet_rules::cri_config::{MemoryQos, Protection, QosClass, qos_class};
use orlop_kubelet_rules::pod::Pod;
use parking_lot::Mutex;
use thiserror::Error;

use crate::options::{CgroupDriver, CgroupOptions};

pub use files::CgroupUsage;

/// Errors of pod cgroups.
#[derive(Debug, Error)]
pub(crate) enum CgroupError {
    #[error("cannot limit the cgroup {path} to {value}: {source}")]
    Limit {
        path: String,
        value: String,
        source: std::io::Error,
    },
    #[error(transparent)]
    Cgroup(#[from] orlop_cgroup::Error),
    #[error("the cgroup operation was interrupted")]
    BrokenOff,
    #[error(
        "slice {slice}: {why}; on a node without systemd, set cgroupDriver to cgroupfs in the \
         agent and in the runtime"
    )]
    Systemd { slice: String, why: String },
}

/// The cgroups of all pods.
#[derive(Debug)]
pub(crate) struct Cgroups {
    options: CgroupOptions,
    layout: files::Layout,
    /// Requests of the pods that have any, by uid.
    asked: Mutex<BTreeMap<String, Asked>>,
    /// The node's CPUs in millicores.
    node_cpu: OnceLock<i64>,
}

/// The part of a pod's requests that counts for its QoS class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Asked {
    /// CPU request in millicores, if the pod is burstable.
    burstable_cpu: i64,
    kept: Protection,
}

impl Cgroups {
    /// Detects the kernel's cgroup hierarchies. Blocks.
    pub(crate) fn new(options: CgroupOptions) -> Result<Self, CgroupError> {
        let layout = files::Layout::of_kernel()?;
        Ok(Self {
            options,
            layout,
            asked: Mutex::default(),
            node_cpu: OnceLock::new(),
        })
    }

    /// Whether the node has cgroup v2.
    pub(crate) fn unified(&self) -> bool {
        self.layout.is_unified()
    }

    /// Creates the root cgroup and those of the QoS classes.
    pub(crate) async fn prepare(&self, node_cpu_milli: u64) -> Result<(), CgroupError> {
        if !self.options.per_qos {
            return Ok(());
        }
        let cpu = i64::try_from(node_cpu_milli).unwrap_or(0);
        // Set once, at the start.
        let _ = self.node_cpu.set(cpu);
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

    /// Returns the cgroup parent to pass to the runtime: a path, or the name of a slice.
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

    /// Creates a pod's cgroup, or updates its limits.
    pub(crate) async fn ensure(&self, pod: &Pod) -> Result<(), CgroupError> {
        if !self.options.per_qos {
            return Ok(());
        }
        let limits = Limits::of_pod(pod, self.options.pids_limit, self.options.cpu_quota);
        let kept = self.memory_qos().map(|it| Limits::protection_of(pod, it));
        let mut asked = Asked {
            burstable_cpu: 0,
            kept: kept.unwrap_or_default(),
        };
        if qos_class(pod) == QosClass::Burstable {
            asked.burstable_cpu = orlop_kubelet_rules::cri_config::pod_request(pod, "cpu").milli();
        }
        // The protection of the parents must cover that of each pod.
        self.share(&pod.metadata.uid, Some(asked)).await?;
        self.apply(&self.pod(pod), &limits.protected(kept)).await
    }

    /// Returns the memory QoS settings, if the kernel supports them.
    pub(crate) fn memory_qos(&self) -> Option<&MemoryQos> {
        let qos = self.options.memory_qos.as_ref();
        qos.filter(|_| self.layout.is_unified())
    }

    /// Reads the usage of all pods together. Blocks.
    pub(crate) fn usage(&self) -> Option<CgroupUsage> {
        let path = self.file_path(&self.name(None, None));
        self.options.per_qos.then(|| self.layout.usage(&path))
    }

    /// Removes a pod's cgroup and everything beneath it.
    pub(crate) async fn remove(&self, pod: &Pod) -> Result<(), CgroupError> {
        if !self.options.per_qos {
            return Ok(());
        }
        let name = self.pod(pod);
        if self.options.driver == CgroupDriver::Systemd {
            let slice = name.slice();
            blocking(move || slices::stop(&slice)).await?;
        }
        let layout = self.layout.clone();
        let path = self.file_path(&name);
        blocking(move || layout.remove(&path)).await?;
        self.share(&pod.metadata.uid, None).await
    }

    /// Removes the cgroups of unknown pods, if they are empty.
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
                tracing::info!(uid, "removing the cgroup of an unknown pod");
                if systemd {
                    let slice = child.clone();
                    if let Err(error) = blocking(move || slices::stop(&slice)).await {
                        tracing::warn!(%error, "cannot stop a slice");
                    }
                }
                let layout = self.layout.clone();
                let path = format!("{parent}/{child}");
                if let Err(error) = blocking(move || layout.remove(&path)).await {
                    tracing::warn!(%error, "cannot remove a cgroup");
                }
            }
        }
    }

    /// Gives the burstable class the CPU shares of all its pods, and each level the memory
    /// protection of the levels beneath it.
    async fn share(&self, uid: &str, asked: Option<Asked>) -> Result<(), CgroupError> {
        let (before, after) = {
            let mut pods = self.asked.lock();
            let before = sum(pods.values());
            match asked {
                Some(asked) => pods.insert(uid.to_owned(), asked),
                None => pods.remove(uid),
            };
            (before, sum(pods.values()))
        };
        if before == after {
            return Ok(());
        }
        if let Some(node_cpu) = self.memory_qos().and(self.node_cpu.get())
            && before.kept != after.kept
        {
            let all = Protection {
                min: after.kept.min.saturating_add(after.kept.low),
                low: 0,
            };
            let limits = Limits::of_shares(*node_cpu).protected(Some(all));
            self.apply(&self.name(None, None), &limits).await?;
        }
        let low = Protection {
            min: 0,
            low: after.kept.low,
        };
        let kept = self.memory_qos().map(|_| low);
        let class = self.name(Some(QosClass::Burstable), None);
        let limits = Limits::of_shares(after.burstable_cpu).protected(kept);
        self.apply(&class, &limits).await
    }

    async fn apply(&self, name: &Name, limits: &Limits) -> Result<(), CgroupError> {
        match self.options.driver {
            CgroupDriver::Systemd => {
                let (slice, limits) = (name.slice(), limits.clone());
                blocking(move || slices::apply(&slice, &limits)).await
            }
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

fn sum<'a>(pods: impl Iterator<Item = &'a Asked>) -> Asked {
    pods.fold(Asked::default(), |sum, pod| Asked {
        burstable_cpu: sum.burstable_cpu.saturating_add(pod.burstable_cpu),
        kept: Protection {
            min: sum.kept.min.saturating_add(pod.kept.min),
            low: sum.kept.low.saturating_add(pod.kept.low),
        },
    })
}

async fn blocking(
    work: impl FnOnce() -> Result<(), CgroupError> + Send + 'static,
) -> Result<(), CgroupError> {
    match orlop_pool::blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(CgroupError::BrokenOff),
    }
}
