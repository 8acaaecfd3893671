use std::collections::BTreeMap;
use std::net::IpAddr;

use orlop_cri::v1;
use serde_json::{Map, Value, json};

use super::life::Life;
use crate::Timestamp;
use crate::actions::ProbeResult;
use crate::config::{QosClass, qos_class};
use crate::manager::{Change, PodView, Stage};
use crate::phase::{ContainerView, PodPhase, pod_phase};
use crate::pod::{Container, ResourceList};
use crate::probe::ProbeKind;
use crate::restart::container_should_restart;
use crate::status::{ContainerState, ContainerStatus};
use crate::time::now;

/// Why a container does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) reason: String,
    pub(super) message: String,
}

/// The pod's conditions and when each last changed.
#[derive(Debug, Clone, Default)]
pub(super) struct Conditions(BTreeMap<&'static str, (bool, Timestamp)>);

impl Conditions {
    fn set(&mut self, kind: &'static str, status: bool) -> Timestamp {
        let entry = self.0.entry(kind).or_insert((status, now()));
        if entry.0 != status {
            *entry = (status, now());
        }
        entry.1
    }
}

/// How far a pod has come.
struct Come {
    has_sandbox: bool,
    initialized: bool,
    containers_ready: bool,
    over: bool,
}

/// One container as the pod's status shows it.
struct Shown {
    json: Value,
    view: ContainerView,
    ready: bool,
    restarts: u32,
    word: Option<String>,
}

impl Life {
    /// Whether all containers have ended for good.
    pub(super) fn is_over(&self) -> bool {
        matches!(
            self.phase(&self.views()),
            PodPhase::Succeeded | PodPhase::Failed
        )
    }

    pub(super) fn looks_failed(&self) -> bool {
        self.phase(&self.views()) != PodPhase::Succeeded
    }

    /// Publishes the pod's view if it has changed.
    pub(super) fn publish(&mut self) {
        let view = self.view();
        if self.mailbox.publish(view) {
            self.ctx.tell(Change::Pod {
                uid: self.mailbox.uid.clone(),
            });
        }
    }

    fn views(&self) -> BTreeMap<String, ContainerView> {
        let all = self.pod.spec.init_and_regular();
        all.map(|c| (c.name.clone(), self.show_container(c).view))
            .collect()
    }

    fn phase(&self, views: &BTreeMap<String, ContainerView>) -> PodPhase {
        if let Some(ended) = &self.ended {
            return if ended.failed {
                PodPhase::Failed
            } else {
                PodPhase::Succeeded
            };
        }
        pod_phase(&self.pod, views, self.stage == Stage::Terminated)
    }

    fn view(&mut self) -> PodView {
        let pod = self.pod.clone();
        let spec = &pod.spec;
        let init: Vec<_> = spec
            .init_containers
            .iter()
            .map(|c| self.show_container(c))
            .collect();
        let regular: Vec<_> = spec
            .containers
            .iter()
            .map(|c| self.show_container(c))
            .collect();
        let ephemeral: Vec<_> = spec
            .ephemeral_containers
            .iter()
            .map(|c| self.show_container(&c.container))
            .collect();
        let views = self.views();
        let phase = self.phase(&views);
        let over = matches!(phase, PodPhase::Succeeded | PodPhase::Failed);
        let (reason, message) = match &self.ended {
            Some(ended) => (ended.reason.clone(), ended.message.clone()),
            None => (String::new(), String::new()),
        };
        let sidecars: Vec<_> = spec
            .init_containers
            .iter()
            .zip(&init)
            .filter(|(c, _)| c.is_sidecar())
            .map(|(_, shown)| shown)
            .collect();
        let counted: Vec<_> = sidecars.iter().copied().chain(&regular).collect();
        let ready_count = counted.iter().filter(|shown| shown.ready).count();
        let containers_ready = !over && ready_count == counted.len();
        let has_sandbox = self
            .seen
            .status
            .sandboxes()
            .first()
            .is_some_and(|s| s.ready);
        let initialized = over && phase == PodPhase::Succeeded
            || views.iter().any(|(name, view)| {
                spec.containers.iter().any(|c| c.name == *name)
                    && matches!(
                        view,
                        ContainerView::Running { .. } | ContainerView::Terminated { .. }
                    )
            })
            || spec
                .init_containers
                .iter()
                .zip(&init)
                .all(|(c, shown)| match shown.view {
                    ContainerView::Running { started } => c.is_sidecar() && started,
                    ContainerView::Terminated { exit_code } => exit_code == 0 && !c.is_sidecar(),
                    ContainerView::Waiting { last_exit } => last_exit == Some(0) && !c.is_sidecar(),
                });
        let ips = self.ips();
        let status = if let Some(kept) = self.kept_status() {
            kept
        } else {
            let conditions = self.conditions_json(
                &Come {
                    has_sandbox,
                    initialized,
                    containers_ready,
                    over,
                },
                phase,
            );
            let mut status = json!({
                "phase": phase_word(phase),
                "conditions": conditions,
                "hostIP": self.ctx.options.node.addresses.first().map(IpAddr::to_string),
                "hostIPs": self.ctx.options.node.addresses.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>(),
                "podIP": ips.first().map(IpAddr::to_string),
                "podIPs": ips.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>(),
                "startTime": self.start_time.rfc3339(),
                "qosClass": qos_word(qos_class(&pod)),
                "initContainerStatuses": list(&init),
                "containerStatuses": list(&regular),
                "ephemeralContainerStatuses": list(&ephemeral),
                "reason": reason,
                "message": message,
            });
            drop_empty(&mut status);
            status
        };
        let restarts = init
            .iter()
            .chain(&regular)
            .map(|shown| shown.restarts)
            .sum();
        let meta = &pod.metadata;
        PodView {
            uid: meta.uid.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            source: self.input.source.clone(),
            manifest: self.input.manifest.clone(),
            summary: self.summary(phase, &reason, &init, &regular),
            status: status.into(),
            phase,
            reason,
            message,
            ready: containers_ready && self.stage == Stage::Syncing,
            ready_containers: (ready_count, counted.len()),
            restarts,
            ips,
            qos: qos_class(&pod),
            start_time: self.start_time,
            stage: self.stage,
        }
    }

    /// What was noted when the pod ended: the runtime may know less by now.
    fn kept_status(&self) -> Option<Value> {
        let ended = self.ended.as_ref()?;
        (self.stage == Stage::Terminated && !ended.status.is_null()).then(|| ended.status.clone())
    }

    fn ips(&self) -> Vec<IpAddr> {
        if self.pod.spec.host_network {
            return self.ctx.options.node.addresses.clone();
        }
        self.seen.status.pod_ips()
    }

    fn conditions_json(&mut self, come: &Come, phase: PodPhase) -> Value {
        let Come {
            has_sandbox,
            initialized,
            containers_ready,
            over,
        } = *come;
        let why = match phase {
            PodPhase::Succeeded => "PodCompleted",
            PodPhase::Failed => "PodFailed",
            _ => "ContainersNotReady",
        };
        let rows = [
            ("PodReadyToStartContainers", has_sandbox && !over, ""),
            ("Initialized", initialized, "ContainersNotInitialized"),
            (
                "Ready",
                containers_ready && self.stage == Stage::Syncing,
                why,
            ),
            ("ContainersReady", containers_ready, why),
            ("PodScheduled", true, ""),
        ];
        let conditions = rows.map(|(kind, status, reason)| {
            let at = self.conditions.set(kind, status);
            let mut condition = json!({
                "type": kind,
                "status": if status { "True" } else { "False" },
                "lastProbeTime": null,
                "lastTransitionTime": at.rfc3339(),
            });
            if !status && !reason.is_empty() {
                condition["reason"] = json!(reason);
            }
            condition
        });
        json!(conditions)
    }

    /// One container, from its newest instance and the one before.
    fn show_container(&self, container: &Container) -> Shown {
        let status = &self.seen.status;
        let instances: Vec<_> = status
            .containers()
            .iter()
            .filter(|c| c.name == container.name)
            .collect();
        let newest = instances.first().copied();
        let before = instances.get(1).copied();
        let waiting = self.waiting.get(&container.name);
        let started = newest.is_some_and(|c| {
            c.state == ContainerState::Running
                && (container.startup_probe.is_none()
                    || self.mailbox.result(&c.id, ProbeKind::Startup) == Some(ProbeResult::Success))
        });
        let is_plain_init = self
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
        let default = if self.pod.spec.init_containers.is_empty() {
            "ContainerCreating"
        } else {
            "PodInitializing"
        };
        let wait = |w: Option<&Waiting>| match w {
            Some(w) => json!({"waiting": {"reason": w.reason, "message": w.message}}),
            None => json!({"waiting": {"reason": default}}),
        };
        let (state, last, view, word) = match newest {
            None => (
                wait(waiting),
                json!({}),
                ContainerView::Waiting { last_exit: None },
                Some(waiting.map_or_else(|| default.to_owned(), |w| w.reason.clone())),
            ),
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
                    Some(waiting.map_or_else(|| default.to_owned(), |w| w.reason.clone())),
                ),
                ContainerState::Unknown => {
                    let state = json!({"terminated": {
                        "reason": "ContainerStatusUnknown", "exitCode": 137,
                        "message": "The container could not be located when the pod was looked at",
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
        let raw = newest.and_then(|c| self.seen.containers.get(&c.id));
        let restarts = newest.map_or(0, |c| c.restart_count);
        let mut json = json!({
            "name": container.name,
            "state": state,
            "lastState": if last.is_null() { json!({}) } else { last },
            "ready": ready,
            "started": started,
            "restartCount": restarts,
            "image": raw.map_or_else(|| container.image.clone(), |raw| image_name(raw, container)),
            "imageID": newest.map(|c| c.image_id.clone()).unwrap_or_default(),
        });
        if let Some(c) = newest {
            json["containerID"] = json!(format!("{}://{}", self.ctx.runtime_name, c.id));
        }
        if let Some(resources) = raw.and_then(|raw| self.resources(container, raw)) {
            json["resources"] = resources;
        }
        if let Some(given) = self
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

    fn show_exited(
        &self,
        container: &Container,
        c: &ContainerStatus,
        before: Option<&ContainerStatus>,
        waiting: Option<&Waiting>,
    ) -> (Value, Value, ContainerView, Option<String>) {
        let comes_back = self.stage == Stage::Syncing
            && self.ended.is_none()
            && container_should_restart(container, self.pod.spec.restart_policy, c.exit_code);
        if comes_back && let Some(w) = waiting {
            return (
                json!({"waiting": {"reason": w.reason, "message": w.message}}),
                self.terminated(c),
                ContainerView::Waiting {
                    last_exit: Some(c.exit_code),
                },
                Some(w.reason.clone()),
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
        let words = self.words.get(&c.id).filter(|words| !words.is_empty());
        let message = words.cloned().unwrap_or_else(|| c.message.clone());
        if !message.is_empty() {
            state["message"] = json!(message);
        }
        json!({ "terminated": state })
    }

    /// What a running container has: what it was given, and where the runtime tells, what it has
    /// in truth.
    fn resources(&self, container: &Container, raw: &v1::ContainerStatus) -> Option<Value> {
        let given = self
            .actuated
            .get(&container.name)
            .unwrap_or(&container.resources);
        if given.limits.is_empty() && given.requests.is_empty() {
            return None;
        }
        let (mut limits, mut requests) = (amounts(&given.limits), amounts(&given.requests));
        let real = raw.resources.as_ref().and_then(|r| r.linux.as_ref());
        if let Some(real) = real.filter(|_| raw.state() == v1::ContainerState::ContainerRunning) {
            if real.cpu_quota > 0 && real.cpu_period > 0 && limits.get("cpu").is_some() {
                let milli = real.cpu_quota.saturating_mul(1000) / real.cpu_period;
                limits["cpu"] = json!(crate::pod::Quantity::from_milli(milli).to_string());
            }
            if real.memory_limit_in_bytes > 0 && limits.get("memory").is_some() {
                limits["memory"] = json!(real.memory_limit_in_bytes.to_string());
            }
            // Two shares is what the kernel has at the least: the request is kept as it is then.
            if real.cpu_shares > 2 && requests.get("cpu").is_some() {
                let milli = (real.cpu_shares.saturating_mul(1000) + 1023) / 1024;
                requests["cpu"] = json!(crate::pod::Quantity::from_milli(milli).to_string());
            }
        }
        let mut resources = Map::new();
        for (key, list) in [("limits", limits), ("requests", requests)] {
            if list.as_object().is_some_and(|map| !map.is_empty()) {
                resources.insert(key.to_owned(), list);
            }
        }
        Some(Value::Object(resources))
    }

    /// One word for people, as `kubectl get pods` makes it.
    fn summary(&self, phase: PodPhase, reason: &str, init: &[Shown], regular: &[Shown]) -> String {
        let mut word = if reason.is_empty() {
            phase_word(phase).to_owned()
        } else {
            reason.to_owned()
        };
        if self.ended.is_some() && !reason.is_empty() {
            return word;
        }
        let spec = &self.pod.spec;
        let mut initializing = false;
        for (i, (container, shown)) in spec.init_containers.iter().zip(init).enumerate() {
            let through = match shown.view {
                ContainerView::Terminated { exit_code } => exit_code == 0,
                ContainerView::Running { started } => container.is_sidecar() && started,
                ContainerView::Waiting { .. } => false,
            };
            if through {
                continue;
            }
            let detail = shown
                .word
                .as_deref()
                .filter(|w| !w.is_empty() && *w != "PodInitializing");
            word = match detail {
                Some(detail) => format!("Init:{detail}"),
                None => format!("Init:{i}/{}", spec.init_containers.len()),
            };
            initializing = true;
            break;
        }
        let begun = regular
            .iter()
            .any(|s| !matches!(s.view, ContainerView::Waiting { last_exit: None }));
        if !initializing || begun {
            let mut running = false;
            let mut said = None;
            for shown in regular.iter().rev() {
                match &shown.word {
                    Some(detail) if !detail.is_empty() => said = Some(detail.clone()),
                    _ => running |= shown.ready,
                }
            }
            if let Some(detail) = said {
                word = detail;
            } else if begun {
                phase_word(phase).clone_into(&mut word);
            }
            if word == "Completed" && running {
                "Running".clone_into(&mut word);
            }
        }
        if self.stage == Stage::Terminating {
            "Terminating".clone_into(&mut word);
        }
        word
    }
}

fn list(shown: &[Shown]) -> Value {
    Value::Array(shown.iter().map(|s| s.json.clone()).collect())
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

fn amounts(list: &ResourceList) -> Value {
    let pairs = list
        .iter()
        .map(|(name, amount)| (name.clone(), json!(amount.to_string())));
    Value::Object(pairs.collect())
}

fn drop_empty(status: &mut Value) {
    if let Value::Object(map) = status {
        map.retain(|_, value| match value {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(list) => !list.is_empty(),
            _ => true,
        });
    }
}

pub(crate) fn phase_word(phase: PodPhase) -> &'static str {
    match phase {
        PodPhase::Pending => "Pending",
        PodPhase::Running => "Running",
        PodPhase::Succeeded => "Succeeded",
        PodPhase::Failed => "Failed",
    }
}

pub(crate) fn qos_word(class: QosClass) -> &'static str {
    match class {
        QosClass::Guaranteed => "Guaranteed",
        QosClass::Burstable => "Burstable",
        QosClass::BestEffort => "BestEffort",
    }
}
