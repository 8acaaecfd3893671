//! One life of a pod, from its first wish to its last trace: the kubelet's `podWorkerLoop`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::client::ClientError;
use orlop_kubelet_rules::Timestamp;
use orlop_kubelet_rules::actions::ActuatedResources;
use orlop_kubelet_rules::pod::{Container, Pod};
use orlop_kubelet_rules::status::ContainerState;
use orlop_kubelet_rules::userns::IdRange;
use serde_json::Value;
use tokio::time::Instant;

use super::api_pod_status::Waiting;
use super::checkpoint::{Checkpoint, Ended};
use super::conditions::Conditions;
use super::forgotten::Former;
use super::probes::Probes;
use super::sync_pod::{MEASURE, Next};
use super::{Cause, Ending, Mailbox, Observation, mailbox, observe};
use crate::clock::now;
use crate::manager::{Change, Context, PodInput, Severity, Stage};
use crate::volumes::{Places, PodDirs, has_limits};

/// The first wait after something went wrong that is not a container's fault.
pub(super) const FIRST_RETRY: Duration = Duration::from_millis(500);
pub(super) const LONGEST_RETRY: Duration = Duration::from_secs(10);
/// Drives a pod from its first wish to its last trace; and again, if it is wanted again.
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

/// One life of a pod.
pub(super) struct Life {
    pub(super) ctx: Arc<Context>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) dirs: PodDirs,
    pub(super) wished: Wished,
    pub(super) seen: Seen,
    pub(super) made: Made,
    pub(super) told: Told,
    pub(super) start_time: Timestamp,
    pub(super) stage: Stage,
    /// Decided to be over, by whom or what.
    pub(super) ended: Option<Ended>,
    pub(super) checkpoint: Checkpoint,
    failures: u32,
}

/// What the pod shall be.
pub(super) struct Wished {
    pub(super) input: Arc<PodInput>,
    /// The pod with what its RuntimeClass adds.
    pub(super) pod: Arc<Pod>,
    /// Its manifest with the same.
    pub(super) manifest: Arc<Value>,
    pub(super) generation: u64,
}

/// What was found when it was last looked at.
pub(super) struct Seen {
    pub(super) observation: Arc<Observation>,
    /// Last words by container id.
    pub(super) words: BTreeMap<String, String>,
    /// When it was last looked at how much the pod's directories hold.
    pub(super) measured: std::time::Instant,
}

/// What was made for the pod.
#[derive(Default)]
pub(super) struct Made {
    /// Where the volumes are, and for which wish they were made.
    pub(super) places: Option<(u64, Arc<Places>)>,
    /// For which wish the cgroup was made.
    pub(super) cgroup: u64,
    /// The ids of its users, if it has its own.
    pub(super) id_range: Option<IdRange>,
    /// What containers were given.
    pub(super) actuated: ActuatedResources,
    pub(super) probes: Probes,
    /// Whether it has run, or may have before this process began.
    has_run: bool,
}

/// What others are told of it.
#[derive(Default)]
pub(super) struct Told {
    /// What keeps containers from running, by name.
    pub(super) waiting: BTreeMap<String, Waiting>,
    /// What keeps the pod as a whole from going on.
    pub(super) trouble: Option<String>,
    pub(super) conditions: Conditions,
    /// How containers were shown last, by name.
    pub(super) shown: BTreeMap<String, Former>,
    /// By container and reason what was said last, and when.
    pub(super) said: BTreeMap<(String, &'static str), (String, Instant)>,
}

impl Wished {
    fn new(input: Arc<PodInput>, generation: u64) -> Self {
        Self {
            pod: input.with_class(),
            manifest: input.manifest_with_class(),
            input,
            generation,
        }
    }

    /// A container of whichever kind.
    pub(super) fn container(&self, name: &str) -> Option<&Container> {
        let spec = &self.pod.spec;
        let ephemeral = spec.ephemeral_containers.iter().map(|c| &c.container);
        spec.init_and_regular()
            .chain(ephemeral)
            .find(|c| c.name == name)
    }
}

impl Life {
    async fn new(ctx: &Arc<Context>, mailbox: &Arc<Mailbox>) -> Self {
        let (input, generation) = mailbox.input();
        let root = ctx.options.root_dir.clone();
        let uid = mailbox.uid.clone();
        let known = orlop_pool::blocking(move || Checkpoint::read(&root, &uid)).await;
        let known = known.ok().flatten();
        let start_time = known.as_ref().map_or_else(now, |c| Timestamp(c.start_time));
        let mut checkpoint = Checkpoint::new(&input, start_time);
        if let Some(known) = &known {
            checkpoint.actuated.clone_from(&known.actuated);
            checkpoint.ended.clone_from(&known.ended);
        }
        Self {
            dirs: PodDirs::new(&ctx.options.root_dir, &mailbox.uid),
            wished: Wished::new(input, generation),
            seen: Seen {
                observation: Arc::default(),
                words: BTreeMap::new(),
                measured: std::time::Instant::now(),
            },
            made: Made {
                actuated: known.as_ref().map(Checkpoint::actuated).unwrap_or_default(),
                has_run: known.is_some(),
                ..Made::default()
            },
            told: Told::default(),
            start_time,
            stage: Stage::Syncing,
            ended: known.and_then(|c| c.ended),
            checkpoint,
            failures: 0,
            ctx: ctx.clone(),
            mailbox: mailbox.clone(),
        }
    }

    /// Returns whether the pod is gone, with all that was of it.
    async fn run(&mut self) -> bool {
        let mut ending = self.mailbox.ending();
        if self.ended.is_none() {
            self.save().await;
            self.publish();
            let outcome = tokio::select! {
                // Who is not let in does not begin.
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

    /// Brings the pod to what its manifest says, until it is over by itself.
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
                // Noise from a runtime in trouble must not shorten the wait; a new wish may.
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

    /// Counts a look at the pod; the first after which it runs is its start.
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

    /// Some while around the time between looks without a reason, so that the pods' don't meet.
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

    /// When the pod has been at work for long enough.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let seconds = self.wished.pod.spec.active_deadline_seconds?;
        Some(self.start_time.after(Duration::from_secs(seconds)))
    }

    /// A pod of the same name that is still on its way out has the name until then.
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

    pub(super) fn pod_ip(&self) -> Option<std::net::IpAddr> {
        if self.wished.pod.spec.host_network {
            return self.ctx.options.node.addresses.first().copied();
        }
        self.seen.observation.status.pod_ips().first().copied()
    }

    /// Asks the runtime for what it knows of the pod.
    pub(super) async fn observe(&mut self) -> Result<(), ClientError> {
        self.mailbox.take_dirty();
        let begun = std::time::Instant::now();
        let observed = observe(&self.ctx.runtime, &self.mailbox.uid).await;
        self.ctx.metrics.looked_at_pod(begun.elapsed());
        let fresh = match observed {
            Ok(fresh) => fresh,
            Err(error) => {
                self.mailbox.touch();
                return Err(error);
            }
        };
        if *self.seen.observation != fresh {
            self.seen.observation = Arc::new(fresh);
        }
        self.mailbox.keep_results(&self.seen.observation);
        let there = &self.seen.observation.containers;
        self.seen.words.retain(|id, _| there.contains_key(id));
        self.show();
        Ok(())
    }

    /// Lets those look that stand beside: probes, and whoever asks for a container by name.
    pub(super) fn show(&self) {
        self.mailbox.show(mailbox::Seen {
            observation: self.seen.observation.clone(),
            finished: self.stage == Stage::Terminated,
            deleted: self.stage != Stage::Syncing || self.wished.pod.is_being_deleted(),
        });
    }

    /// Reads what containers that ended have left to say, once for each.
    pub(super) async fn read_last_words(&mut self) {
        let fresh: Vec<_> = self
            .seen
            .observation
            .status
            .containers()
            .iter()
            .filter(|c| c.state == ContainerState::Exited && !self.seen.words.contains_key(&c.id))
            .filter_map(|c| self.seen.observation.containers.get(&c.id).cloned())
            .collect();
        let said = super::termination_message::of_all(&self.mailbox.uid, fresh).await;
        self.seen.words.extend(said);
    }

    /// Notes what containers were given.
    pub(super) async fn note_actuated(&mut self, name: &str) {
        let Some(container) = self.wished.container(name) else {
            return;
        };
        let resources = container.resources.clone();
        if self.made.actuated.get(name) == Some(&resources) {
            return;
        }
        self.made.actuated.insert(name.to_owned(), resources);
        let given = given_resources(&self.wished.input.manifest, name);
        self.checkpoint.actuated.insert(name.to_owned(), given);
        self.save().await;
    }

    pub(super) async fn save(&self) {
        let checkpoint = self.checkpoint.clone();
        let root = self.ctx.options.root_dir.clone();
        let uid = self.mailbox.uid.clone();
        let write = orlop_pool::blocking(move || checkpoint.write(&root, &uid));
        if let Ok(Err(error)) = write.await {
            tracing::error!(pod = self.wished.input.full_name(), %error, "cannot write a checkpoint");
        }
    }
}

enum Outcome {
    /// Somebody wants it to end.
    Ended,
    /// All its containers have ended for good.
    Over,
    /// It is held to a deadline, or cannot be.
    Failed { reason: String, message: String },
}

/// A container's resources as the manifest has them.
fn given_resources(manifest: &serde_json::Value, name: &str) -> serde_json::Value {
    let spec = &manifest["spec"];
    ["containers", "initContainers"]
        .iter()
        .filter_map(|list| spec[list].as_array())
        .flatten()
        .find(|container| container["name"] == name)
        .map(|container| container["resources"].clone())
        .filter(|resources| !resources.is_null())
        .unwrap_or_else(|| serde_json::json!({}))
}
