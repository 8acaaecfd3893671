use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orlop_cri::client::ClientError;
use tokio::time::Instant;

use super::checkpoint::{Checkpoint, Ended};
use super::mailbox::Seen;
use super::pass::{MEASURE, Next};
use super::probes::Probes;
use super::report::{Conditions, Waiting};
use super::{Cause, Ending, Mailbox, Observation, Victim, kill_all, observe, stop_sandboxes};
use crate::Timestamp;
use crate::actions::{ActuatedResources, KillReason};
use crate::manager::{Change, Context, Event, PodInput, Severity, Stage};
use crate::pod::{Container, Pod};
use crate::status::ContainerState;
use crate::termination::{grace_period, termination_order};
use crate::time::now;
use crate::userns::IdRange;
use crate::volumes::{Places, PodDirs, has_limits};

/// The first wait after something went wrong that is not a container's fault.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(10);
/// How many things said lately are remembered.
const MAX_SAID: usize = 64;

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
            if !again {
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
    pub(super) input: Arc<PodInput>,
    /// The pod with what its RuntimeClass adds.
    pub(super) pod: Arc<Pod>,
    pub(super) generation: u64,
    pub(super) dirs: PodDirs,
    pub(super) seen: Arc<Observation>,
    /// What keeps containers from running, by name.
    pub(super) waiting: BTreeMap<String, Waiting>,
    pub(super) conditions: Conditions,
    pub(super) start_time: Timestamp,
    pub(super) actuated: ActuatedResources,
    /// Where the volumes are, and for which wish they were made.
    pub(super) places: Option<(u64, Arc<Places>)>,
    /// For which wish the cgroup was made.
    pub(super) cgroup: u64,
    /// The ids of its users, if it has its own.
    pub(super) id_range: Option<IdRange>,
    /// Last words by container id.
    pub(super) words: BTreeMap<String, String>,
    pub(super) stage: Stage,
    /// Decided to be over, by whom or what.
    pub(super) ended: Option<Ended>,
    pub(super) probes: Probes,
    /// When it was last looked at how much the pod's directories hold.
    pub(super) measured: std::time::Instant,
    checkpoint: Checkpoint,
    failures: u32,
    said: BTreeMap<(String, &'static str), (String, Instant)>,
}

impl Life {
    async fn new(ctx: &Arc<Context>, mailbox: &Arc<Mailbox>) -> Self {
        let (input, generation) = mailbox.input();
        let root = ctx.options.root_dir.clone();
        let uid = mailbox.uid.clone();
        let known = tokio::task::spawn_blocking(move || Checkpoint::read(&root, &uid)).await;
        let known = known.ok().flatten();
        let start_time = known.as_ref().map_or_else(now, |c| Timestamp(c.start_time));
        let mut checkpoint = Checkpoint::new(&input, start_time);
        if let Some(known) = &known {
            checkpoint.actuated.clone_from(&known.actuated);
            checkpoint.ended.clone_from(&known.ended);
        }
        Self {
            dirs: PodDirs::new(&ctx.options.root_dir, &mailbox.uid),
            pod: input.with_overhead(),
            input,
            generation,
            seen: Arc::default(),
            waiting: BTreeMap::new(),
            conditions: Conditions::default(),
            start_time,
            actuated: known.as_ref().map(Checkpoint::actuated).unwrap_or_default(),
            places: None,
            cgroup: 0,
            id_range: None,
            words: BTreeMap::new(),
            stage: Stage::Syncing,
            ended: known.and_then(|c| c.ended),
            probes: Probes::default(),
            measured: std::time::Instant::now(),
            checkpoint,
            failures: 0,
            said: BTreeMap::new(),
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
        self.terminate().await;
        self.stage = Stage::Terminated;
        self.probes.stop();
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
            if generation != self.generation {
                self.pod = input.with_overhead();
                self.input = input;
                self.generation = generation;
                self.checkpoint.manifest = (*self.input.manifest).clone();
                self.save().await;
            }
            let next = match self.pass().await {
                Ok(next) => {
                    self.failures = 0;
                    next
                }
                Err(problem) => {
                    self.say(
                        None,
                        Severity::Warning,
                        problem.reason,
                        problem.message.clone(),
                    );
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
                            if self.mailbox.input().1 != self.generation {
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

    /// Some while around the time between looks without a reason, so that the pods' don't meet.
    fn resync(&self) -> Duration {
        let around = 0.5 + rand::random::<f64>();
        let mut wait = self.ctx.options.resync.mul_f64(around);
        if has_limits(&self.pod) {
            wait = wait.min(MEASURE);
        }
        match self.deadline() {
            Some(deadline) => wait.min(deadline.since(now()) + Duration::from_millis(10)),
            None => wait,
        }
    }

    /// When the pod has been at work for long enough.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let seconds = self.pod.spec.active_deadline_seconds?;
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

    /// Ends all that runs, and tries until nothing does.
    async fn terminate(&mut self) {
        let mut ending = self.mailbox.ending();
        let mut hooks = true;
        let mut tries = 0_u32;
        self.show();
        loop {
            let before = grace_of(ending.borrow_and_update().as_ref());
            let more_haste = async {
                // Another reason to go changes nothing about the going; less time does.
                let less = |end: &Option<Ending>| grace_of(end.as_ref()) != before;
                if ending.wait_for(less).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let done = tokio::select! {
                done = self.end_all(hooks) => done,
                () = more_haste => {
                    hooks = false;
                    continue;
                }
            };
            match done {
                Ok(()) => return,
                Err(error) => {
                    let message = format!("error killing pod: {error}");
                    self.say(None, Severity::Warning, "FailedKillPod", message);
                    let wait = FIRST_RETRY * 2_u32.saturating_pow(tries.min(10));
                    tries += 1;
                    tokio::time::sleep(wait.min(LONGEST_RETRY)).await;
                }
            }
        }
    }

    /// Stops all containers and then all sandboxes.
    async fn end_all(&mut self, hooks: bool) -> Result<(), ClientError> {
        self.observe().await?;
        self.publish();
        let ending = self.mailbox.ending().borrow().clone();
        let forced = ending.and_then(|ending| ending.grace);
        self.kill_running(forced, hooks).await?;
        let ids: Vec<_> = self.sandbox_ids();
        stop_sandboxes(&self.ctx, ids.iter().map(String::as_str)).await?;
        self.observe().await?;
        self.read_last_words().await;
        self.publish();
        Ok(())
    }

    pub(super) fn sandbox_ids(&self) -> Vec<String> {
        let sandboxes = self.seen.status.sandboxes().iter();
        sandboxes.map(|s| s.id.clone()).collect()
    }

    /// Stops all running containers in their order.
    pub(super) async fn kill_running(
        &self,
        forced: Option<Duration>,
        hooks: bool,
    ) -> Result<(), ClientError> {
        let running: Vec<_> = self
            .seen
            .status
            .containers()
            .iter()
            .filter(|c| matches!(c.state, ContainerState::Running | ContainerState::Unknown))
            .collect();
        let order = termination_order(&self.pod, running.iter().map(|c| c.name.as_str()));
        let victims = running
            .iter()
            .map(|c| {
                let message = format!("Stopping container {}", c.name);
                let mut victim = self.victim(&c.id, &c.name, None, forced, message);
                victim.pre_stop = victim.pre_stop.filter(|_| hooks);
                victim
            })
            .collect();
        let tell = self.teller();
        kill_all(&self.ctx, victims, &order, self.pod_ip(), &tell).await
    }

    pub(super) fn victim(
        &self,
        id: &str,
        name: &str,
        reason: Option<KillReason>,
        forced: Option<Duration>,
        message: String,
    ) -> Victim {
        let container = self.container(name);
        Victim {
            id: id.to_owned(),
            name: name.to_owned(),
            grace: grace_period(&self.pod, container, reason, forced),
            pre_stop: container.and_then(|c| c.lifecycle.pre_stop.clone()),
            container: container.cloned().unwrap_or_default(),
            message,
        }
    }

    pub(super) fn container(&self, name: &str) -> Option<&Container> {
        let spec = &self.pod.spec;
        let ephemeral = spec.ephemeral_containers.iter().map(|c| &c.container);
        spec.init_and_regular()
            .chain(ephemeral)
            .find(|c| c.name == name)
    }

    pub(super) fn pod_ip(&self) -> Option<std::net::IpAddr> {
        if self.pod.spec.host_network {
            return self.ctx.options.node.addresses.first().copied();
        }
        self.seen.status.pod_ips().first().copied()
    }

    /// Notes how the pod ended, and gives back what only a pod at work needs.
    async fn settle(&mut self) {
        self.waiting.clear();
        let shut_down = matches!(
            &*self.mailbox.ending().borrow(),
            Some(Ending {
                cause: Cause::Shutdown,
                ..
            })
        );
        let removed = matches!(
            &*self.mailbox.ending().borrow(),
            Some(Ending {
                cause: Cause::Removed,
                ..
            })
        );
        self.show();
        self.publish();
        if shut_down {
            return;
        }
        if !removed {
            let (failed, reason, message) = match &self.ended {
                Some(ended) => (ended.failed, ended.reason.clone(), ended.message.clone()),
                None => (self.looks_failed(), String::new(), String::new()),
            };
            let status = self.mailbox.view().map(|view| (*view.status).clone());
            let ended = Ended {
                failed,
                reason,
                message,
                status: status.unwrap_or_default(),
            };
            self.ended = Some(ended.clone());
            let never_ran = self.seen.containers.is_empty()
                && self.seen.status.sandboxes().is_empty()
                && self.checkpoint.ended.is_none();
            if never_ran {
                // It was not let in. The next manager may see room for it.
                let (root, uid) = (self.ctx.options.root_dir.clone(), self.mailbox.uid.clone());
                let forget = move || Checkpoint::remove(&root, &uid);
                let _ = tokio::task::spawn_blocking(forget).await;
            } else {
                self.checkpoint.ended = Some(ended);
                self.save().await;
            }
            self.publish();
        }
        if let Err(error) = self.ctx.cgroups.remove(&self.pod).await {
            tracing::warn!(pod = self.input.full_name(), %error, "a pod's cgroup stays");
        }
    }

    /// Removes every trace of the pod; tries until there is none.
    async fn clean_up(&mut self) {
        let mut tries = 0_u32;
        loop {
            match self.remove_all().await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(
                        pod = self.input.full_name(),
                        error,
                        "a pod's remains stay for now"
                    );
                    let wait = FIRST_RETRY * 2_u32.saturating_pow(tries.min(10));
                    tries += 1;
                    tokio::time::sleep(wait.min(LONGEST_RETRY)).await;
                }
            }
        }
    }

    async fn remove_all(&mut self) -> Result<(), String> {
        let text = |error: ClientError| error.to_string();
        self.observe().await.map_err(text)?;
        let runtime = &self.ctx.runtime;
        for id in self.seen.containers.keys() {
            match runtime.remove_container(id).await {
                Err(error) if !error.is_not_found() => return Err(error.to_string()),
                _ => {}
            }
        }
        let ids = self.sandbox_ids();
        stop_sandboxes(&self.ctx, ids.iter().map(String::as_str))
            .await
            .map_err(text)?;
        for id in &ids {
            match runtime.remove_pod_sandbox(id).await {
                Err(error) if !error.is_not_found() => return Err(error.to_string()),
                _ => {}
            }
        }
        self.ctx
            .cgroups
            .remove(&self.pod)
            .await
            .map_err(|e| e.to_string())?;
        let dirs = self.dirs.clone();
        let logs = self.ctx.pod_logs(&self.pod);
        let root = self.ctx.options.root_dir.clone();
        let uid = self.mailbox.uid.clone();
        let remove = move || {
            dirs.remove().map_err(|e| e.to_string())?;
            match std::fs::remove_dir_all(&logs) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(format!("removing {}: {e}", logs.display()));
                }
                _ => {}
            }
            Checkpoint::remove(&root, &uid).map_err(|e| e.to_string())
        };
        let removed = tokio::task::spawn_blocking(remove).await;
        removed.map_err(|e| e.to_string())??;
        self.ctx.user_namespaces.release(&self.mailbox.uid);
        self.ctx.log_links.remove_pod(&self.pod).await;
        Ok(())
    }

    /// Asks the runtime for what it knows of the pod.
    pub(super) async fn observe(&mut self) -> Result<(), ClientError> {
        self.mailbox.take_dirty();
        let fresh = match observe(&self.ctx.runtime, &self.mailbox.uid).await {
            Ok(fresh) => fresh,
            Err(error) => {
                self.mailbox.touch();
                return Err(error);
            }
        };
        if *self.seen != fresh {
            self.seen = Arc::new(fresh);
        }
        self.mailbox.keep_results(&self.seen);
        let there = &self.seen.containers;
        self.words.retain(|id, _| there.contains_key(id));
        self.show();
        Ok(())
    }

    /// Lets those look that stand beside: probes, and whoever asks for a container by name.
    pub(super) fn show(&self) {
        self.mailbox.show(Seen {
            observation: self.seen.clone(),
            finished: self.stage == Stage::Terminated,
            deleted: self.stage != Stage::Syncing || self.pod.is_being_deleted(),
        });
    }

    /// Reads what containers that ended have left to say, once for each.
    pub(super) async fn read_last_words(&mut self) {
        let fresh: Vec<_> = self
            .seen
            .status
            .containers()
            .iter()
            .filter(|c| c.state == ContainerState::Exited && !self.words.contains_key(&c.id))
            .filter_map(|c| self.seen.containers.get(&c.id).cloned())
            .collect();
        if fresh.is_empty() {
            return;
        }
        let read = move || {
            let said = fresh
                .iter()
                .map(|s| (s.id.clone(), super::last_words::read(s)));
            said.collect::<Vec<_>>()
        };
        if let Ok(said) = tokio::task::spawn_blocking(read).await {
            self.words.extend(said);
        }
    }

    /// Notes what containers were given.
    pub(super) async fn note_actuated(&mut self, name: &str) {
        let Some(container) = self.container(name) else {
            return;
        };
        let resources = container.resources.clone();
        if self.actuated.get(name) == Some(&resources) {
            return;
        }
        self.actuated.insert(name.to_owned(), resources);
        let given = given_resources(&self.input.manifest, name);
        self.checkpoint.actuated.insert(name.to_owned(), given);
        self.save().await;
    }

    async fn save(&self) {
        let checkpoint = self.checkpoint.clone();
        let root = self.ctx.options.root_dir.clone();
        let uid = self.mailbox.uid.clone();
        let write = tokio::task::spawn_blocking(move || checkpoint.write(&root, &uid));
        if let Ok(Err(error)) = write.await {
            tracing::error!(pod = self.input.full_name(), %error, "cannot write a checkpoint");
        }
    }

    /// Tells of something, unless the same was told a moment ago.
    pub(super) fn say(
        &mut self,
        container: Option<&str>,
        severity: Severity,
        reason: &'static str,
        message: String,
    ) {
        const QUIET: Duration = Duration::from_mins(1);
        let key = (container.unwrap_or_default().to_owned(), reason);
        let now = Instant::now();
        if severity == Severity::Warning || reason == "BackOff" {
            if let Some((before, at)) = self.said.get(&key)
                && *before == message
                && now.duration_since(*at) < QUIET
            {
                return;
            }
            if self.said.len() >= MAX_SAID {
                self.said.clear();
            }
            self.said.insert(key, (message.clone(), now));
        }
        (self.teller())(container, severity, reason, message);
    }

    /// Tells of things without looking back.
    pub(super) fn teller(
        &self,
    ) -> impl Fn(Option<&str>, Severity, &'static str, String) + Send + Sync + use<> {
        let ctx = self.ctx.clone();
        let meta = self.pod.metadata.clone();
        move |container, severity, reason, message| {
            ctx.event(Event {
                time: now(),
                severity,
                reason,
                message,
                uid: meta.uid.clone(),
                namespace: meta.namespace.clone(),
                name: meta.name.clone(),
                container: container.map(str::to_owned),
            });
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

fn grace_of(ending: Option<&Ending>) -> Option<Duration> {
    ending.and_then(|ending| ending.grace)
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
