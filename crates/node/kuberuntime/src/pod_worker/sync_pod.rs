//! One sync of a pod with its manifest: the kubelet's `SyncPod`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use orlop_cri_api::client::ClientError;
use orlop_kubelet_rules::Timestamp;
use orlop_kubelet_rules::actions::{
    Kill, KillReason, Observed, PodActions, Reset, compute_pod_actions, hold_back,
};
use orlop_kubelet_rules::pod::Container;
use orlop_kubelet_rules::status::ContainerState;
use orlop_pool::Place;

use super::container_state::Waiting;
use super::kill_containers::{kill_all, stop_sandboxes};
use super::life::Life;
use super::problem::Problem;
use super::start_container::{Kind, StartFailure};
use crate::clock::now;
use crate::event::Severity;
use crate::node_paths::touching;
use crate::volumes::{checked_paths, has_limits, over_limit, prepare};

/// Interval of the measurements of a pod's disk usage.
pub(super) const MEASURE: Duration = Duration::from_secs(10);

/// When to sync again.
pub(super) enum Next {
    /// At once, because something was done.
    Now,
    /// When something happens.
    Idle,
    /// At this time, or when something happens.
    At(Timestamp),
    /// Never: all containers have ended and none will restart.
    Over,
    /// Never: the pod has failed.
    Fail { reason: String, message: String },
}

impl Life {
    /// Syncs the pod once: observes, decides, and acts in the kubelet's order.
    pub(super) async fn sync_pod(&mut self) -> Result<Next, Problem> {
        if self.mailbox.take_dirty() {
            self.observe().await?;
            self.read_last_words().await;
        }
        self.made.probes.update(
            &self.ctx,
            &self.mailbox,
            &self.wished.pod,
            &self.seen.observation,
        );
        self.publish();
        if self.is_over() {
            return Ok(Next::Over);
        }
        if self.deadline().is_some_and(|deadline| deadline <= now()) {
            return Ok(Next::Fail {
                reason: "DeadlineExceeded".to_owned(),
                message: "Pod was active on the node longer than the specified deadline".to_owned(),
            });
        }
        if let Some(message) = self.over_limit().await {
            return Ok(Next::Fail {
                reason: "Evicted".to_owned(),
                message,
            });
        }
        if !self.mailbox.is_confirmed() {
            // Only the checkpoint of this pod is known. Its source provides objects such as
            // ConfigMaps, or may no longer want the pod.
            return Ok(Next::Idle);
        }
        if self.made.cgroup != self.wished.generation {
            let ensured = self.ctx.cgroups.ensure(&self.wished.pod).await;
            ensured.map_err(|error| {
                let message = format!("unable to ensure pod cgroup exists: {error}");
                Problem::new("FailedCreatePodContainer", message)
            })?;
            self.made.cgroup = self.wished.generation;
        }
        let volumes_changed = self
            .made
            .places
            .as_ref()
            .is_some_and(|(generation, _)| *generation != self.wished.generation);
        if volumes_changed {
            self.prepare_volumes().await?;
        }
        let mut actions = compute_pod_actions(
            &self.wished.pod,
            &Observed {
                status: self.seen.observation.status.clone(),
                probes: self.mailbox.probe_results(),
                actuated: self.made.actuated.clone(),
            },
        );
        let held = hold_back(
            &self.wished.pod,
            &self.seen.observation.status,
            &mut actions,
            now(),
        );
        if held.is_some() {
            self.mailbox.doubt();
        }
        self.act(actions, held).await
    }

    /// Carries out the actions; `held` is the time when more will be due.
    async fn act(&mut self, actions: PodActions, held: Option<Timestamp>) -> Result<Next, Problem> {
        let mut acted = false;
        if actions.kill_pod {
            if actions.create_sandbox && actions.sandbox_id.is_some() {
                let message = "Pod sandbox changed, it will be killed and re-created.";
                self.say(None, Severity::Normal, "SandboxChanged", message.to_owned());
            }
            acted |= self.kill_pod().await?;
            if actions.create_sandbox {
                self.remove_init_containers(|_| true).await?;
                self.remove_unstarted_of_all().await;
            }
        } else {
            for kill in &actions.containers_to_kill {
                self.kill_one(kill).await?;
                acted = true;
            }
            for reset in &actions.containers_to_reset {
                self.reset_one(reset).await?;
                acted = true;
            }
        }
        if !actions.containers_to_reset.is_empty() {
            return Ok(self.again());
        }
        let starts = actions.create_sandbox
            || !actions.init_containers_to_start.is_empty()
            || !actions.containers_to_start.is_empty()
            || !actions.ephemeral_containers_to_start.is_empty();
        if !starts && actions.containers_to_resize.is_empty() {
            return Ok(self.next(acted, held));
        }
        if starts {
            if let Some(why) = self.ctx.network_error()
                && !self.wished.pod.spec.host_network
            {
                let mut problem =
                    Problem::new("NetworkNotReady", format!("network is not ready: {why}"));
                problem.retry = Some(Duration::from_secs(1));
                return Err(problem);
            }
            self.prepare_volumes().await?;
        }
        if !actions.init_containers_to_start.is_empty() {
            self.prune_init_containers().await?;
        }
        let sandbox = if actions.create_sandbox {
            acted = true;
            let made = self.create_sandbox(actions.attempt).await?;
            self.publish();
            made
        } else {
            match &actions.sandbox_id {
                Some(id) => id.clone(),
                None => return Ok(self.again()),
            }
        };
        let config = self.sandbox_config(actions.attempt).await?;
        self.write_hosts().await?;

        let mut retry = held;
        let mut failed = |at: Option<Timestamp>| {
            let at = at.unwrap_or_else(|| now().after(Duration::from_secs(10)));
            retry = Some(retry.map_or(at, |r| r.min(at)));
        };
        for index in actions.ephemeral_containers_to_start {
            let ephemeral = self.wished.pod.spec.ephemeral_containers[index].clone();
            let target = ephemeral.target_container_name.as_str();
            let target = self
                .seen
                .observation
                .status
                .newest(target)
                .map(|s| s.id.clone());
            let kind = Kind::Ephemeral { target };
            match self
                .start_container(&sandbox, &config, &ephemeral.container, kind)
                .await
            {
                Ok(()) => acted = true,
                Err(failure) => failed(self.note_failure(&ephemeral.container, failure)),
            }
        }
        for index in actions.init_containers_to_start {
            let container = self.wished.pod.spec.init_containers[index].clone();
            match self
                .start_container(&sandbox, &config, &container, Kind::Init)
                .await
            {
                Ok(()) => acted = true,
                Err(failure) => {
                    failed(self.note_failure(&container, failure));
                    if !container.is_sidecar() {
                        return Ok(self.next(acted, retry));
                    }
                }
            }
        }
        for resize in &actions.containers_to_resize {
            match self.resize(resize, &sandbox).await {
                Ok(()) => acted = true,
                Err(message) => {
                    self.say(
                        Some(&resize.name),
                        Severity::Warning,
                        "FailedResize",
                        message,
                    );
                    failed(None);
                }
            }
        }
        for index in actions.containers_to_start {
            let container = self.wished.pod.spec.containers[index].clone();
            match self
                .start_container(&sandbox, &config, &container, Kind::Regular)
                .await
            {
                Ok(()) => {
                    acted = true;
                    if index + 1 < self.wished.pod.spec.containers.len() {
                        self.publish();
                    }
                }
                Err(failure) => failed(self.note_failure(&container, failure)),
            }
        }
        Ok(self.next(acted, retry))
    }

    fn again(&self) -> Next {
        self.mailbox.touch();
        Next::Now
    }

    fn next(&mut self, acted: bool, retry: Option<Timestamp>) -> Next {
        if acted {
            return self.again();
        }
        self.publish();
        retry.map_or(Next::Idle, Next::At)
    }

    /// Records why a container is not running; returns when to retry.
    fn note_failure(&mut self, container: &Container, failure: StartFailure) -> Option<Timestamp> {
        let waiting = Waiting {
            reason: failure.reason,
            message: failure.message,
        };
        self.told.waiting.insert(container.name.clone(), waiting);
        failure.retry
    }

    /// Measures periodically whether a directory of the pod exceeds its limit.
    async fn over_limit(&mut self) -> Option<String> {
        if self.seen.measured.elapsed() < MEASURE || !has_limits(&self.wished.pod) {
            return None;
        }
        self.seen.measured = Instant::now();
        let (dirs, pod) = (self.dirs.clone(), self.wished.pod.clone());
        // The time depends on the number of files.
        static MEASURING: Place = Place::new("measuring the disk usage of pods", 16, 1, 4096);
        let measuring = MEASURING.run_for(&self.mailbox.uid, move || over_limit(&dirs, &pod));
        let measured = measuring.await;
        measured.ok().flatten()
    }

    /// Creates the pod's volumes, or updates them.
    async fn prepare_volumes(&mut self) -> Result<(), Problem> {
        if self
            .made
            .places
            .as_ref()
            .is_some_and(|(made, _)| *made == self.wished.generation)
        {
            return Ok(());
        }
        let (dirs, pod) = (self.dirs.clone(), self.wished.pod.clone());
        let facts = self.facts();
        let values = self.values();
        let touched = checked_paths(&pod);
        let work = move || prepare(&dirs, &pod, &facts, &values);
        let prepared = touching(&self.own_places(), touched, work).await;
        let prepared = prepared.and_then(|made| made.map_err(|error| error.to_string()));
        let places = prepared.map_err(|why| {
            let message = format!("MountVolume.SetUp failed: {why}");
            Problem::new("FailedMount", message)
        })?;
        self.made.places = Some((self.wished.generation, places.into()));
        Ok(())
    }

    /// Returns directories that lie on the node's own file systems.
    pub(super) fn own_places(&self) -> [PathBuf; 2] {
        let options = &self.ctx.options;
        [options.root_dir.clone(), options.pod_logs_dir.clone()]
    }

    /// Stops all containers and sandboxes; returns whether there were any.
    async fn kill_pod(&mut self) -> Result<bool, Problem> {
        if !self.seen.observation.is_alive() {
            return Ok(false);
        }
        let fail = |error: ClientError| {
            Problem::new("FailedKillPod", format!("error killing pod: {error}"))
        };
        self.kill_running(None, true).await.map_err(fail)?;
        let ids = self.sandbox_ids();
        let stopped = stop_sandboxes(&self.ctx, ids.iter().map(String::as_str)).await;
        stopped.map_err(fail)?;
        Ok(true)
    }

    async fn kill_one(&mut self, kill: &Kill) -> Result<(), Problem> {
        let name = &kill.name;
        let then = if kill.restarts {
            ", will be restarted"
        } else {
            ""
        };
        let message = match kill.reason {
            KillReason::DefinitionChanged => format!("Container {name} definition changed{then}"),
            KillReason::LivenessProbe => format!("Container {name} failed liveness probe{then}"),
            KillReason::StartupProbe => format!("Container {name} failed startup probe{then}"),
            KillReason::Resized => format!("Container {name} resize requires restart{then}"),
            KillReason::Unknown => {
                format!("Container {name} is in unknown state, try killing it before restart")
            }
        };
        let victim = self.victim(&kill.id, name, Some(kill.reason), None, message);
        let tell = self.teller();
        let killed = kill_all(&self.ctx, vec![victim], &[], self.pod_ip(), &tell).await;
        killed.map_err(|error| {
            Problem::new(
                "FailedKillPod",
                format!("error killing container {name}: {error}"),
            )
        })
    }

    async fn reset_one(&mut self, reset: &Reset) -> Result<(), Problem> {
        let fail = |error: ClientError| {
            let message = format!("error resetting container {}: {error}", reset.name);
            Problem::new("FailedKillPod", message)
        };
        match self
            .ctx
            .runtime
            .stop_container(&reset.id, Duration::ZERO)
            .await
        {
            Err(error) if !error.is_not_found() => return Err(fail(error)),
            _ => {}
        }
        match self.ctx.runtime.remove_container(&reset.id).await {
            Err(error) if !error.is_not_found() => Err(fail(error)),
            _ => Ok(()),
        }
    }

    /// Keeps only the newest exited instance of each init container.
    async fn prune_init_containers(&mut self) -> Result<(), Problem> {
        let mut kept = std::collections::BTreeSet::new();
        let status = self.seen.observation.status.clone();
        let spare: Vec<String> = status
            .containers()
            .iter()
            .filter(|c| matches!(c.state, ContainerState::Exited | ContainerState::Unknown))
            .filter(|c| !kept.insert(c.name.clone()))
            .map(|c| c.id.clone())
            .collect();
        self.remove_init_containers(|id| spare.iter().any(|s| s == id))
            .await
    }

    async fn remove_init_containers(
        &mut self,
        which: impl Fn(&str) -> bool,
    ) -> Result<(), Problem> {
        let spec = &self.wished.pod.spec;
        let ids: Vec<_> = self
            .seen
            .observation
            .status
            .containers()
            .iter()
            .filter(|c| spec.init_containers.iter().any(|i| i.name == c.name))
            .filter(|c| which(&c.id))
            .map(|c| c.id.clone())
            .collect();
        for id in ids {
            match self.ctx.runtime.remove_container(&id).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}
