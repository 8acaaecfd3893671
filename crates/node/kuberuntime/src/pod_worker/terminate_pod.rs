//! Terminates a pod: the kubelet's `SyncTerminatingPod` and `SyncTerminatedPod`.

use std::time::Duration;

use orlop_cri_api::client::ClientError;
use orlop_kubelet_rules::actions::KillReason;
use orlop_kubelet_rules::status::ContainerState;
use orlop_kubelet_rules::termination::{grace_period, termination_order};
use orlop_pool::Place;

use super::checkpoint::{Checkpoint, Ended};
use super::kill_containers::{Victim, kill_all, stop_sandboxes};
use super::life::{FIRST_RETRY, LONGEST_RETRY, Life};
use crate::event::Severity;
use crate::mailbox::{Cause, Ending};

impl Life {
    /// Stops everything that runs, and retries until nothing does.
    pub(super) async fn terminate(&mut self) {
        let mut ending = self.mailbox.ending();
        let mut hooks = true;
        let mut tries = 0_u32;
        self.show();
        loop {
            let before = grace_of(ending.borrow_and_update().as_ref());
            let more_haste = async {
                // Only a different grace period changes the termination, not another cause.
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

    /// Stops all containers, then all sandboxes.
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
        let sandboxes = self.seen.observation.status.sandboxes().iter();
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
            .observation
            .status
            .containers()
            .iter()
            .filter(|c| matches!(c.state, ContainerState::Running | ContainerState::Unknown))
            .collect();
        let order = termination_order(&self.wished.pod, running.iter().map(|c| c.name.as_str()));
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
        let container = self.wished.container(name);
        Victim {
            id: id.to_owned(),
            name: name.to_owned(),
            grace: grace_period(&self.wished.pod, container, reason, forced),
            pre_stop: container.and_then(|c| c.lifecycle.pre_stop.clone()),
            container: container.cloned().unwrap_or_default(),
            message,
        }
    }

    /// Records how the pod ended, and removes its cgroup.
    pub(super) async fn settle(&mut self) {
        self.told.waiting.clear();
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
            let never_ran = self.seen.observation.containers.is_empty()
                && self.seen.observation.status.sandboxes().is_empty()
                && self.checkpoint.ended.is_none();
            if never_ran {
                // The pod failed admission. After a restart, there may be room for it.
                let (root, uid) = (self.ctx.options.root_dir.clone(), self.mailbox.uid.clone());
                let forget = move || Checkpoint::remove(&root, &uid);
                let _ = orlop_pool::blocking(forget).await;
            } else {
                self.checkpoint.ended = Some(ended);
                self.save().await;
            }
            self.publish();
        }
        if let Err(error) = self.ctx.cgroups.remove(&self.wished.pod).await {
            tracing::warn!(pod = self.wished.input.full_name(), %error, "cannot remove the cgroup of a pod");
        }
    }

    /// Removes everything of the pod; retries until it succeeds.
    pub(super) async fn clean_up(&mut self) {
        let mut tries = 0_u32;
        loop {
            match self.remove_all().await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(
                        pod = self.wished.input.full_name(),
                        error,
                        "cannot remove all files and containers of a pod yet; retrying"
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
        for id in self.seen.observation.containers.keys() {
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
            .remove(&self.wished.pod)
            .await
            .map_err(|e| e.to_string())?;
        let dirs = self.dirs.clone();
        let logs = self.ctx.pod_logs(&self.wished.pod);
        let root = self.ctx.options.root_dir.clone();
        let uid = self.mailbox.uid.clone();
        let remove = move || {
            dirs.remove().map_err(|e| e.to_string())?;
            orlop_fs::remove_tree(&logs)
                .map_err(|e| format!("cannot remove {}: {e}", logs.display()))?;
            Checkpoint::remove(&root, &uid).map_err(|e| e.to_string())
        };
        without_others(&self.mailbox.uid, remove).await?;
        self.ctx.user_namespaces.release(&self.mailbox.uid);
        self.ctx.log_links.remove_pod(&self.wished.pod).await;
        Ok(())
    }
}

/// Removes a pod's files on threads of their own, because it can take long.
async fn without_others(
    uid: &str,
    remove: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Result<(), String> {
    static REMOVING: Place = Place::new("removing the files of pods", 32, 2, 4096);
    let removed = REMOVING.run_for(uid, remove).await;
    removed.map_err(|refused| refused.to_string())?
}

fn grace_of(ending: Option<&Ending>) -> Option<Duration> {
    ending.and_then(|ending| ending.grace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pods_whose_files_take_long_to_remove_keep_no_thread_of_the_node_s() {
        let mut releases = Vec::new();
        let slow = (0..100).map(|pod| {
            let (release, held) = std::sync::mpsc::channel::<()>();
            releases.push(release);
            tokio::spawn(async move {
                let remove = move || {
                    let _ = held.recv();
                    Ok(())
                };
                without_others(&pod.to_string(), remove).await
            })
        });
        let slow: Vec<_> = slow.collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let own = tokio::time::timeout(Duration::from_secs(10), orlop_pool::blocking(|| 7));
        assert_eq!(own.await.expect("a thread of the node's").unwrap(), 7);
        drop(releases);
        for each in slow {
            each.await.unwrap().unwrap();
        }
    }
}
