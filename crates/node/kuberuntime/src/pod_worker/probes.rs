//! Starts and stops the probes of a pod: the kubelet's `AddPod` and `UpdatePodStatus` of its
//! prober.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_kubelet_rules::pod::{Container, Pod, Probe};
use orlop_kubelet_rules::probe::ProbeKind;
use tokio_util::task::AbortOnDropHandle;

use crate::context::Context;
use crate::mailbox::Mailbox;
use crate::pod_status::Observation;
use crate::prober::{Subject, run};

/// The probe tasks of a pod.
#[derive(Debug, Default)]
pub(super) struct Probes {
    tasks: BTreeMap<(String, &'static str), Task>,
}

#[derive(Debug)]
struct Task {
    /// The probe and container definition that the task was started for.
    made_for: (Probe, Container),
    _handle: AbortOnDropHandle<()>,
}

impl Probes {
    /// Starts the probes of containers that have started since the last call. A changed definition
    /// restarts its probes.
    pub(super) fn update(
        &mut self,
        ctx: &Arc<Context>,
        mailbox: &Arc<Mailbox>,
        pod: &Arc<Pod>,
        seen: &Observation,
    ) {
        self.tasks.retain(|(name, word), _| {
            let mut all = pod.spec.init_and_regular();
            all.any(|c| c.name == *name && probe_of(c, word).is_some())
        });
        for container in pod.spec.init_and_regular() {
            if seen.status.newest(&container.name).is_none() {
                continue;
            }
            let probes = [
                (ProbeKind::Startup, "Startup", &container.startup_probe),
                (ProbeKind::Liveness, "Liveness", &container.liveness_probe),
                (
                    ProbeKind::Readiness,
                    "Readiness",
                    &container.readiness_probe,
                ),
            ];
            for (kind, word, probe) in probes {
                let Some(probe) = probe else { continue };
                let key = (container.name.clone(), word);
                let made_for = (probe.clone(), container.clone());
                if self
                    .tasks
                    .get(&key)
                    .is_some_and(|task| task.made_for == made_for)
                {
                    continue;
                }
                let subject = Subject {
                    kind,
                    word,
                    pod: pod.clone(),
                    container: container.clone(),
                    probe: probe.clone(),
                };
                let task = tokio::spawn(run(ctx.clone(), mailbox.clone(), subject));
                let task = Task {
                    made_for,
                    _handle: AbortOnDropHandle::new(task),
                };
                self.tasks.insert(key, task);
            }
        }
    }

    pub(super) fn stop(&mut self) {
        self.tasks.clear();
    }
}

fn probe_of<'a>(container: &'a Container, word: &str) -> Option<&'a Probe> {
    match word {
        "Startup" => container.startup_probe.as_ref(),
        "Liveness" => container.liveness_probe.as_ref(),
        _ => container.readiness_probe.as_ref(),
    }
}
