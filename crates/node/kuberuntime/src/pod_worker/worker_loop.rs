//! The loop of a pod worker, from the first sync to the pod's removal: the kubelet's
//! `podWorkerLoop`.

use std::sync::Arc;
use std::time::Duration;

use orlop_kubelet_rules::status::ContainerState;
use tokio::time::Instant;

use super::checkpoint::Ended;
use super::life::{FIRST_RETRY, LONGEST_RETRY, Life, Wished};
use super::sync_pod::{MEASURE, Next};
use crate::clock::now;
use crate::context::Context;
use crate::event::{Change, Severity};
use crate::mailbox::{Cause, Ending, Mailbox};
use crate::pod_view::Stage;
use crate::volumes::has_limits;

/// Runs a pod from its first sync to its removal, and again if it was set again meanwhile.
pub(crate) async fn run(ctx: Arc<Context>, mailbox: Arc<Mailbox>) {
    loop {
        let mut life = Life::new(&ctx, &mailbox).await;
        let stop = ctx.stop.clone();
        let gone = tokio::select! {
            gone = life.run() => gone,
            () = stop.cancelled() => false,
        };
        drop(life);
        if !gone {
            return;
        }
        let goes_on = ctx.with_workers(|workers| {
            let again = mailbox.start_over();
            if again {
                ctx.metrics.pods().restarted();
            } else {
                workers.remove(&mailbox.uid);
            }
            again
        });
        ctx.pod_gone.notify_waiters();
        if !goes_on {
            ctx.tell(Change::Gone {
                uid: mailbox.uid.clone(),
            });
            return;
        }
    }
}

impl Life {
    /// Runs the worker; returns whether the pod and everything of it is gone.
    async fn run(&mut self) -> bool {
        let mut ending = self.mailbox.ending();
        if self.ended.is_none() {
            self.save().await;
            self.publish();
            let outcome = tokio::select! {
                // A pod that failed admission does not start.
                biased;
                _ = ending.wait_for(Option::is_some) => Outcome::Ended,
                outcome = self.sync() => outcome,
            };
            self.stage = Stage::Terminating;
            if let Outcome::Failed { reason, message } = &outcome {
                self.fail(reason, message);
            }
        }
        if let Some(Ending {
            cause: Cause::Failed { reason, message },
            ..
        }) = self.mailbox.ending().borrow().clone()
        {
            self.fail(&reason, &message);
        }
        self.stage = Stage::Terminating;
        let begun = Instant::now();
        self.terminate().await;
        let metrics = self.ctx.metrics.pods();
        metrics.worked("terminate", begun.elapsed());
        self.stage = Stage::Terminated;
        self.made.probes.stop();
        self.settle().await;
        loop {
            let cause = self.mailbox.ending().borrow().clone().map(|end| end.cause);
            match cause {
                Some(Cause::Removed) => break,
                Some(Cause::Shutdown) => return false,
                Some(Cause::Failed { .. }) | None => {}
            }
            tokio::select! {
                () = self.mailbox.rung() => {}
                _ = ending.changed() => {}
            }
        }
        self.clean_up().await;
        true
    }

    /// Syncs the pod with its manifest until it ends by itself.
    async fn sync(&mut self) -> Outcome {
        self.wait_for_namesake().await;
        loop {
            let (input, generation) = self.mailbox.input();
            if generation != self.wished.generation {
                self.wished = Wished::new(input, generation);
                self.checkpoint.manifest = (*self.wished.input.manifest).clone();
                self.save().await;
            }
            let begun = Instant::now();
            let passed = self.sync_pod().await;
            self.count_pass(begun.elapsed());
            let next = match passed {
                Ok(next) => {
                    self.failures = 0;
                    self.told.trouble = None;
                    next
                }
                Err(problem) => {
                    self.say(
                        None,
                        Severity::Warning,
                        problem.reason,
                        problem.message.clone(),
                    );
                    self.told.trouble = Some(problem.message);
                    let wait = FIRST_RETRY * 2_u32.saturating_pow(self.failures);
                    self.failures = (self.failures + 1).min(10);
                    self.mailbox.touch();
                    self.publish();
                    Next::At(now().after(problem.retry.unwrap_or(wait.min(LONGEST_RETRY))))
                }
            };
            let until = match next {
                Next::Now => continue,
                Next::Over => return Outcome::Over,
                Next::Fail { reason, message } => return Outcome::Failed { reason, message },
                Next::At(at) => at.since(now()),
                Next::Idle => self.resync(),
            };
            if self.failures > 0 {
                // Events of a failing runtime must not shorten the delay; a new manifest may.
                let enough = tokio::time::sleep(until);
                tokio::pin!(enough);
                loop {
                    tokio::select! {
                        () = &mut enough => break,
                        () = self.mailbox.rung() => {
                            if self.mailbox.input().1 != self.wished.generation {
                                break;
                            }
                        }
                    }
                }
            } else {
                tokio::select! {
                    () = self.mailbox.rung() => {}
                    () = tokio::time::sleep(until) => {}
                }
            }
        }
    }

    /// Records the duration of a sync; the first one that sees a running container is the pod's
    /// start.
    fn count_pass(&mut self, took: Duration) {
        let ctx = self.ctx.clone();
        let metrics = ctx.metrics.pods();
        metrics.worked(if self.made.has_run { "sync" } else { "create" }, took);
        let containers = &self.wished.pod.spec.containers;
        let runs = |name: &str| {
            let newest = self.seen.observation.status.newest(name);
            newest.is_some_and(|it| it.state == ContainerState::Running)
        };
        if !self.made.has_run && containers.iter().any(|it| runs(&it.name)) {
            self.made.has_run = true;
            metrics.started(now().since(self.start_time));
        }
    }

    /// Returns the resync interval with jitter, so that pods do not sync at the same time.
    fn resync(&self) -> Duration {
        let around = 0.5 + rand::random::<f64>();
        let mut wait = self.ctx.options.resync.mul_f64(around);
        if has_limits(&self.wished.pod) {
            wait = wait.min(MEASURE);
        }
        match self.deadline() {
            Some(deadline) => wait.min(deadline.since(now()) + Duration::from_millis(10)),
            None => wait,
        }
    }

    /// Waits while another pod of the same name is terminating.
    async fn wait_for_namesake(&mut self) {
        loop {
            let gone = self.ctx.pod_gone.notified();
            tokio::pin!(gone);
            gone.as_mut().enable();
            if !self.ctx.has_leaving_namesake(&self.mailbox) {
                return;
            }
            gone.await;
        }
    }

    fn fail(&mut self, reason: &str, message: &str) {
        if self.ended.is_none() {
            self.ended = Some(Ended {
                failed: true,
                reason: reason.to_owned(),
                message: message.to_owned(),
                status: serde_json::Value::Null,
            });
        }
    }
}

enum Outcome {
    /// The pod's end was requested.
    Ended,
    /// All containers of the pod have ended and none will restart.
    Over,
    /// The pod's deadline has passed, or the pod cannot run.
    Failed { reason: String, message: String },
}
