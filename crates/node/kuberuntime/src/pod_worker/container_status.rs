//! Container statuses in the pod's status: the kubelet's `convertToAPIContainerStatuses`.

use orlop_cri_api::v1;
use orlop_kubelet_rules::Timestamp;
use orlop_kubelet_rules::actions::ProbeResult;
use orlop_kubelet_rules::phase::ContainerView;
use orlop_kubelet_rules::pod::{Container, Quantity, ResourceList};
use orlop_kubelet_rules::probe::ProbeKind;
use orlop_kubelet_rules::restart::container_should_restart;
use orlop_kubelet_rules::status::{ContainerState, ContainerStatus};
use orlop_kubelet_rules::waiting::WaitingReason;
use serde_json::{Map, Value, json};

use super::container_state::{Shown, Waiting};
use super::life::Life;
use super::termination_message;
use crate::pod_view::Stage;

impl Life {
    /// Builds the status of a container from its newest instance and the one before.
    pub(super) fn show_container(&self, container: &Container) -> Shown {
        let status = &self.seen.observation.status;
        let instances: Vec<_> = status
            .containers()
            .iter()
            .filter(|c| c.name == container.name)
            .collect();
        let newest = instances.first().copied();
        let before = instances.get(1).copied();
        let waiting = self.told.waiting.get(&container.name);
        let started = newest.is_some_and(|c| {
            c.state == ContainerState::Running
                && (container.startup_probe.is_none()
                    || self.mailbox.result(&c.id, ProbeKind::Startup) == Some(ProbeResult::Success))
        });
        let is_plain_init = self
            .wished
            .pod
            .spec
            .init_containers
            .iter()
            .any(|c| c.name == container.name)
            && !container.is_sidecar();
        let ready = match newest {
            Some(c) if is_plain_init => c.succeeded(),
            Some(c) => {
                started
                    && (container.readiness_probe.is_none()
                        || self.mailbox.result(&c.id, ProbeKind::Readiness)
                            == Some(ProbeResult::Success))
            }
            None => false,
        };
        let default = if self.wished.pod.spec.init_containers.is_empty() {
            WaitingReason::ContainerCreating
        } else {
            WaitingReason::PodInitializing
        };
        let wait = |w: Option<&Waiting>| match w {
            Some(w) => w.shown(),
            None => match &self.told.trouble {
                // No container is created until this problem is solved.
                Some(why) if newest.is_none() => {
                    json!({"waiting": {"reason": default.word(), "message": why}})
                }
                _ => json!({"waiting": {"reason": default.word()}}),
            },
        };
        let left = self.told.shown.get(&container.name).cloned();
        let left = left.unwrap_or_default().left(self.stage == Stage::Syncing);
        let restarts = newest.map_or(left.restarts, |c| c.restart_count);
        let (state, last, view, word) = match newest {
            None => {
                let why = match left.view {
                    // An init container runs again in a new sandbox, however it ended.
                    _ if is_plain_init => waiting.cloned(),
                    ContainerView::Terminated { exit_code }
                        if self.comes_back(container, exit_code) =>
                    {
                        let trouble = self.told.trouble.clone().map(|message| Waiting {
                            reason: default,
                            message,
                        });
                        waiting.cloned().or(trouble)
                    }
                    _ => None,
                };
                let why = why.filter(|_| self.goes_on());
                let left = left.kept_by(why.as_ref());
                let word = waiting.map_or(default, |w| w.reason).to_string();
                (
                    left.state.unwrap_or_else(|| wait(waiting)),
                    left.last,
                    left.view,
                    Some(left.word.unwrap_or(word)),
                )
            }
            Some(c) => match c.state {
                ContainerState::Running => (
                    json!({"running": {"startedAt": c.started_at.map(Timestamp::rfc3339)}}),
                    before.map(|b| self.terminated(b)).unwrap_or_default(),
                    ContainerView::Running { started },
                    None,
                ),
                ContainerState::Exited => self.show_exited(container, c, before, waiting),
                ContainerState::Created => (
                    wait(waiting),
                    before.map(|b| self.terminated(b)).unwrap_or_default(),
                    ContainerView::Waiting {
                        last_exit: before.map(|b| b.exit_code),
                    },
                    Some(waiting.map_or(default, |w| w.reason).to_string()),
                ),
                ContainerState::Unknown => {
                    let state = json!({"terminated": {
                        "reason": "ContainerStatusUnknown", "exitCode": 137,
                        "message": "The container could not be located when the pod status was read",
                        "startedAt": null, "finishedAt": null,
                    }});
                    (
                        state,
                        before.map(|b| self.terminated(b)).unwrap_or_default(),
                        ContainerView::Terminated { exit_code: 137 },
                        Some("ContainerStatusUnknown".to_owned()),
                    )
                }
            },
        };
        let raw = newest.and_then(|c| self.seen.observation.containers.get(&c.id));
        let mut json = json!({
            "name": container.name,
            "state": state,
            "lastState": if last.is_null() { json!({}) } else { last },
            "ready": ready,
            "started": started,
            "restartCount": restarts,
            "image": raw.map_or_else(|| container.image.clone(), |raw| image_name(raw, container)),
            "imageID": image_id(newest, raw),
        });
        if let Some(c) = newest {
            json["containerID"] = json!(format!("{}://{}", self.ctx.runtime_name, c.id));
        }
        if let Some(raw) = raw {
            json["resources"] = self.resources(container, raw);
            let mounts = volume_mounts(container);
            if !mounts.is_empty() {
                json["volumeMounts"] = json!(mounts);
            }
        }
        if let Some(given) = self
            .made
            .actuated
            .get(&container.name)
            .filter(|g| !g.requests.is_empty())
        {
            json["allocatedResources"] = amounts(&given.requests);
        }
        if let Some(user) = raw.and_then(|raw| raw.user.as_ref()?.linux.as_ref()) {
            json["user"] = json!({"linux": {
                "uid": user.uid, "gid": user.gid, "supplementalGroups": user.supplemental_groups,
            }});
        }
        Shown {
            json,
            view,
            ready,
            restarts,
            word,
        }
    }

    fn goes_on(&self) -> bool {
        self.stage == Stage::Syncing && self.ended.is_none()
    }

    /// Whether a container with this exit code restarts.
    fn comes_back(&self, container: &Container, exit_code: i32) -> bool {
        let policy = self.wished.pod.spec.restart_policy;
        self.goes_on() && container_should_restart(container, policy, exit_code)
    }

    fn show_exited(
        &self,
        container: &Container,
        c: &ContainerStatus,
        before: Option<&ContainerStatus>,
        waiting: Option<&Waiting>,
    ) -> (Value, Value, ContainerView, Option<String>) {
        if self.comes_back(container, c.exit_code)
            && let Some(w) = waiting
        {
            return (
                w.shown(),
                self.terminated(c),
                ContainerView::Waiting {
                    last_exit: Some(c.exit_code),
                },
                Some(w.reason.to_string()),
            );
        }
        let word = exit_word(c);
        (
            self.terminated(c),
            before.map(|b| self.terminated(b)).unwrap_or_default(),
            ContainerView::Terminated {
                exit_code: c.exit_code,
            },
            Some(word),
        )
    }

    fn terminated(&self, c: &ContainerStatus) -> Value {
        let mut state = json!({
            "exitCode": c.exit_code,
            "reason": exit_word(c),
            "startedAt": c.started_at.map(Timestamp::rfc3339),
            "finishedAt": c.finished_at.map(Timestamp::rfc3339),
            "containerID": format!("{}://{}", self.ctx.runtime_name, c.id),
        });
        let words = self.seen.words.get(&c.id).filter(|words| !words.is_empty());
        let message = words.cloned().unwrap_or_else(|| c.message.clone());
        if !message.is_empty() {
            state["message"] = json!(termination_message::share(message, &self.wished.pod));
        }
        json!({ "terminated": state })
    }

    /// Returns the resources of a container: those it was given, or those in force if the runtime
    /// reports them.
    fn resources(&self, container: &Container, raw: &v1::ContainerStatus) -> Value {
        let given = self
            .made
            .actuated
            .get(&container.name)
            .unwrap_or(&container.resources);
        let (mut limits, mut requests) = (given.limits.clone(), given.requests.clone());
        let real = raw.resources.as_ref().and_then(|r| r.linux.as_ref());
        if let Some(real) = real.filter(|_| raw.state() == v1::ContainerState::ContainerRunning) {
            if real.cpu_quota > 0 && real.cpu_period > 0 {
                let milli = real.cpu_quota.saturating_mul(1000) / real.cpu_period;
                in_truth(&mut limits, "cpu", Quantity::from_milli(milli));
            }
            if real.memory_limit_in_bytes > 0 {
                let bytes = Quantity::from_bytes(real.memory_limit_in_bytes);
                in_truth(&mut limits, "memory", bytes);
            }
            // Two shares are the kernel's minimum, so the request stays as given.
            if real.cpu_shares > 2 {
                let milli = (real.cpu_shares.saturating_mul(1000) + 1023) / 1024;
                in_truth(&mut requests, "cpu", Quantity::from_milli(milli));
            }
        }
        let mut resources = Map::new();
        for (key, list) in [("limits", limits), ("requests", requests)] {
            if !list.is_empty() {
                resources.insert(key.to_owned(), amounts(&list));
            }
        }
        Value::Object(resources)
    }
}

/// Replaces a given amount with the one in force; an equal amount keeps its notation.
fn in_truth(list: &mut ResourceList, name: &str, amount: Quantity) {
    if let Some(given) = list.get_mut(name)
        && *given != amount
    {
        *given = amount;
    }
}

fn exit_word(c: &ContainerStatus) -> String {
    if !c.reason.is_empty() {
        return c.reason.clone();
    }
    if c.exit_code == 0 {
        "Completed"
    } else {
        "Error"
    }
    .to_owned()
}

fn image_name(raw: &v1::ContainerStatus, container: &Container) -> String {
    let image = raw.image.as_ref();
    let name = image
        .map(|i| i.user_specified_image.clone())
        .filter(|n| !n.is_empty());
    name.unwrap_or_else(|| container.image.clone())
}

/// Returns the image's name with digest if the runtime has one, else its id, as kubelets do.
fn image_id(newest: Option<&ContainerStatus>, raw: Option<&v1::ContainerStatus>) -> String {
    let by_name = raw
        .map(|raw| &raw.image_ref)
        .filter(|name| !name.is_empty());
    let by_id = newest.map(|c| &c.image_id);
    by_name.or(by_id).cloned().unwrap_or_default()
}

/// Lists the volume mounts of a container for its status.
fn volume_mounts(container: &Container) -> Vec<Value> {
    let mounts = container.volume_mounts.iter().map(|mount| {
        let mut shown = json!({"name": mount.name, "mountPath": mount.mount_path});
        if mount.read_only {
            shown["readOnly"] = json!(true);
            let recursive = mount.recursive_read_only.as_deref();
            shown["recursiveReadOnly"] = json!(recursive.unwrap_or("Disabled"));
        }
        shown
    });
    mounts.collect()
}

fn amounts(list: &ResourceList) -> Value {
    let pairs = list
        .iter()
        .map(|(name, amount)| (name.clone(), json!(amount.to_string())));
    Value::Object(pairs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_in_force_keeps_the_manifest_s_form() {
        let given = |text: &str| text.parse::<Quantity>().unwrap();
        let mut list: ResourceList = [("memory".to_owned(), given("65536Ki"))].into();
        in_truth(&mut list, "memory", Quantity::from_bytes(64 << 20));
        assert_eq!(amounts(&list), json!({"memory": "64Mi"}));
        list.insert("memory".to_owned(), given("67108864"));
        in_truth(&mut list, "memory", Quantity::from_bytes(64 << 20));
        assert_eq!(amounts(&list), json!({"memory": "67108864"}));
        in_truth(&mut list, "memory", Quantity::from_bytes(32 << 20));
        in_truth(&mut list, "cpu", Quantity::from_milli(500));
        assert_eq!(amounts(&list), json!({"memory": "32Mi"}));
    }

    #[test]
    fn an_image_named_by_digest_is_told_by_its_name() {
        let seen = v1::ContainerStatus {
            image_ref: "r.example/a@sha256:12ab".to_owned(),
            image_id: "sha256:34cd".to_owned(),
            ..v1::ContainerStatus::default()
        };
        assert_eq!(image_id(None, Some(&seen)), "r.example/a@sha256:12ab");
        assert_eq!(image_id(None, None), "");
    }
}
