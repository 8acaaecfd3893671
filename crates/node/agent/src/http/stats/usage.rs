//! A snapshot of the usage that the runtime reports.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_cri_api::v1;
use orlop_kuberuntime::manager::PodView;

use crate::shared::Shared;

/// A snapshot of the usage that the runtime reports.
pub(super) struct Usage {
    pub(super) pods: Vec<Arc<PodView>>,
    pub(super) sandboxes: BTreeMap<String, v1::PodSandboxStats>,
    pub(super) containers: BTreeMap<(String, String), v1::ContainerStats>,
    /// Whether the container statistics could not be read.
    pub(super) failed: bool,
}

pub(super) async fn usage(shared: &Shared) -> Usage {
    let manager = shared.manager();
    let (sandboxes, containers) = tokio::join!(manager.pod_stats(), manager.container_stats());
    // Pod statistics are optional in a runtime; container statistics are not.
    let failed = containers.is_err();
    let errors = [sandboxes.as_ref().err(), containers.as_ref().err()];
    for error in errors.into_iter().flatten() {
        tracing::debug!(%error, "cannot read pod statistics");
    }
    Usage {
        pods: manager.pods(),
        sandboxes: sandboxes.unwrap_or_default(),
        containers: containers.unwrap_or_default(),
        failed,
    }
}

pub(super) fn value(it: Option<&v1::UInt64Value>) -> Option<u64> {
    it.map(|it| it.value)
}

impl Usage {
    pub(super) fn containers_of<'u>(
        &'u self,
        uid: &'u str,
    ) -> impl Iterator<Item = (&'u str, &'u v1::ContainerStats)> + 'u {
        let begin = (uid.to_owned(), String::new());
        self.containers
            .range(begin..)
            .take_while(move |((of, _), _)| of == uid)
            .map(|((_, name), stats)| (name.as_str(), stats))
    }

    /// Returns the CPU time of a pod in seconds: its sandbox's, or the sum of its containers.
    pub(super) fn pod_cpu(&self, uid: &str) -> Option<f64> {
        let sandbox = self.sandboxes.get(uid).and_then(|it| it.linux.as_ref());
        let own = sandbox
            .and_then(|it| it.cpu.as_ref())
            .and_then(|cpu| value(cpu.usage_core_nano_seconds.as_ref()));
        let sum = || {
            let all = self.containers_of(uid).filter_map(|(_, it)| cpu(it));
            all.reduce(|a, b| a + b)
        };
        own.or_else(sum).map(|nanos| nanos as f64 / 1e9)
    }

    pub(super) fn pod_memory(&self, uid: &str) -> Option<u64> {
        let sandbox = self.sandboxes.get(uid).and_then(|it| it.linux.as_ref());
        let own = sandbox
            .and_then(|it| it.memory.as_ref())
            .and_then(|memory| value(memory.working_set_bytes.as_ref()));
        own.or_else(|| {
            let all = self
                .containers_of(uid)
                .filter_map(|(_, it)| working_set(it));
            all.reduce(|a, b| a + b)
        })
    }
}

pub(super) fn cpu(stats: &v1::ContainerStats) -> Option<u64> {
    value(stats.cpu.as_ref()?.usage_core_nano_seconds.as_ref())
}

pub(super) fn working_set(stats: &v1::ContainerStats) -> Option<u64> {
    value(stats.memory.as_ref()?.working_set_bytes.as_ref())
}

/// Returns when a container last started, from the pod's status.
pub(super) fn container_start<'p>(pod: &'p PodView, name: &str) -> Option<&'p str> {
    let lists = [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ];
    let statuses = lists
        .iter()
        .flat_map(|list| pod.status[*list].as_array().into_iter().flatten());
    let mut found = statuses.filter(|status| status["name"] == name);
    found.next()?["state"]["running"]["startedAt"].as_str()
}
