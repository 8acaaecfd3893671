//! Shutdown of the manager, with or without its pods.

use std::time::Duration;

use super::Manager;
use crate::mailbox::{Cause, Ending, Mailbox};
use crate::pod_view::Stage;

/// What happens to the pods when the manager shuts down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Pods keep running.
    Leave,
    /// Pods are stopped, each within its own grace period but at most `at_most`.
    Stop {
        /// The longest grace period.
        at_most: Duration,
    },
}

impl Manager {
    /// Shuts the manager down: all workers have ended when this returns.
    pub async fn shutdown(&self, policy: Shutdown) {
        if let Shutdown::Stop { at_most } = policy {
            let workers: Vec<_> = self
                .ctx
                .with_workers(|workers| workers.values().cloned().collect());
            for mailbox in &workers {
                let own = mailbox
                    .snapshot()
                    .0
                    .pod
                    .spec
                    .termination_grace_period_seconds;
                let own = own
                    .and_then(|s| u64::try_from(s).ok())
                    .map(Duration::from_secs);
                mailbox.end(Ending {
                    cause: Cause::Shutdown,
                    grace: Some(own.map_or(at_most, |own| own.min(at_most))),
                });
            }
            // More than the grace period: the runtime needs time for its own work.
            let limit = at_most + Duration::from_secs(15);
            let wait = async {
                for mailbox in workers {
                    let ended =
                        |m: &Mailbox| m.view().is_none_or(|view| view.stage == Stage::Terminated);
                    while !ended(&mailbox) && !self.ctx.tasks.is_empty() {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            };
            if tokio::time::timeout(limit, wait).await.is_err() {
                tracing::warn!("some pods did not stop in time and keep running");
            }
        }
        self.ctx.stop.cancel();
        self.ctx.tasks.close();
        let limit = Duration::from_secs(10);
        if tokio::time::timeout(limit, self.ctx.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("some tasks of the manager did not stop in time");
        }
    }
}
