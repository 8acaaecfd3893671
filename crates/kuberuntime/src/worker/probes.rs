use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::task::AbortOnDropHandle;

use super::{Mailbox, Observation};
use crate::manager::Context;
use crate::pod::Pod;
use crate::probe::ProbeKind;
use crate::prober::{Subject, run};

/// The tasks that check the pod's containers.
#[derive(Debug, Default)]
pub(super) struct Probes {
    tasks: BTreeMap<(String, &'static str), AbortOnDropHandle<()>>,
}

impl Probes {
    /// Begins the checks of containers that have come up since the last look. A definition that
    /// has changed begins its checks anew.
    pub(super) fn update(
        &mut self,
        ctx: &Arc<Context>,
        mailbox: &Arc<Mailbox>,
        pod: &Arc<Pod>,
        seen: &Observation,
    ) {
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
                if self.tasks.contains_key(&key) {
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
                self.tasks.insert(key, AbortOnDropHandle::new(task));
            }
        }
    }

    pub(super) fn stop(&mut self) {
        self.tasks.clear();
    }
}
