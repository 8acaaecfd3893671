//! The pod's status as in the Kubernetes API: the kubelet's `generateAPIPodStatus`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use orlop_kubelet_rules::cri_config::{QosClass, pod_request, qos_class};
use orlop_kubelet_rules::phase::{ContainerView, PodPhase, pod_phase};
use orlop_kubelet_rules::pod::{Pod, PodSpec, Quantity};
use serde_json::{Map, Value, json};

use super::conditions::Come;
use super::container_state::Shown;
use super::forgotten::Former;
use super::life::Life;
use super::summary::phase_word;
use crate::event::Change;
use crate::pod_view::{PodView, Stage};

impl Life {
    /// Whether all containers have ended and none will restart.
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
        let all = self.wished.pod.spec.init_and_regular();
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
        pod_phase(&self.wished.pod, views, self.stage == Stage::Terminated)
    }

    fn view(&mut self) -> PodView {
        let pod = self.wished.pod.clone();
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
        let names = spec.init_and_regular().map(|c| &c.name);
        let names = names.chain(spec.ephemeral_containers.iter().map(|c| &c.container.name));
        let shown = init.iter().chain(&regular).chain(&ephemeral);
        let shown = names.cloned().zip(shown.map(Former::of)).collect();
        self.told.shown = shown;
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
            .observation
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
            let conditions = self.told.conditions.json(
                &Come {
                    has_sandbox,
                    initialized,
                    containers_ready,
                    over,
                    incomplete: incomplete(spec, &init),
                    unready: unready(spec, &init, &regular),
                },
                phase,
                self.stage,
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
                "containerStatuses": list_by_name(&regular),
                "ephemeralContainerStatuses": list_by_name(&ephemeral),
                "reason": reason,
                "message": message,
            });
            drop_empty(&mut status);
            for (field, amounts) in whole(&pod) {
                status[field] = amounts;
            }
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
            source: self.wished.input.source.clone(),
            manifest: self.wished.manifest.clone(),
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

    /// Returns the status saved when the pod ended, because the runtime may have less by now.
    fn kept_status(&self) -> Option<Value> {
        let ended = self.ended.as_ref()?;
        (self.stage == Stage::Terminated && !ended.status.is_null()).then(|| ended.status.clone())
    }

    fn ips(&self) -> Vec<IpAddr> {
        if self.wished.pod.spec.host_network {
            return self.ctx.options.node.addresses.clone();
        }
        self.seen.observation.status.pod_ips()
    }
}

/// Lists the init containers that are not complete, in order.
fn incomplete<'a>(spec: &'a PodSpec, init: &[Shown]) -> Vec<&'a str> {
    let all = spec.init_containers.iter().zip(init);
    let open = all.filter(|(container, shown)| match shown.view {
        ContainerView::Running { started } => !(container.is_sidecar() && started),
        ContainerView::Terminated { exit_code } => exit_code != 0 || container.is_sidecar(),
        ContainerView::Waiting { .. } => true,
    });
    open.map(|(container, _)| container.name.as_str()).collect()
}

/// Lists the sidecars and containers that are not ready.
fn unready<'a>(spec: &'a PodSpec, init: &[Shown], regular: &[Shown]) -> Vec<&'a str> {
    let sidecars = spec.init_containers.iter().zip(init);
    let sidecars = sidecars.filter(|(container, _)| container.is_sidecar());
    let all = sidecars.chain(spec.containers.iter().zip(regular));
    all.filter(|(_, shown)| !shown.ready)
        .map(|(container, _)| container.name.as_str())
        .collect()
}

/// Returns the total limits and requests of the pod, for resources that a container names.
fn whole(pod: &Pod) -> Vec<(&'static str, Value)> {
    let spec = &pod.spec;
    let (mut limits, mut requests) = (Map::new(), Map::new());
    for name in ["cpu", "memory"] {
        let asked = pod_request(pod, name);
        if asked != Quantity::default() {
            requests.insert(name.to_owned(), json!(asked.to_string()));
        }
        let own = spec.resources.as_ref().and_then(|r| r.limit(name));
        let named = || {
            let long_lived = spec
                .containers
                .iter()
                .chain(spec.init_containers.iter().filter(|c| c.is_sidecar()));
            long_lived
                .filter_map(|c| c.resources.limit(name))
                .reduce(Quantity::plus)
        };
        if let Some(limit) = own.or_else(named) {
            limits.insert(name.to_owned(), json!(limit.to_string()));
        }
    }
    if limits.is_empty() && requests.is_empty() {
        return Vec::new();
    }
    let allocated = Value::Object(requests.clone());
    let mut resources = Map::new();
    for (key, list) in [("limits", limits), ("requests", requests)] {
        if !list.is_empty() {
            resources.insert(key.to_owned(), Value::Object(list));
        }
    }
    vec![
        ("allocatedResources", allocated),
        ("resources", Value::Object(resources)),
    ]
}

fn list(shown: &[Shown]) -> Value {
    Value::Array(shown.iter().map(|s| s.json.clone()).collect())
}

/// Sorts containers by name, as kubelets do, so that two answers are comparable. Init containers
/// keep their order.
fn list_by_name(shown: &[Shown]) -> Value {
    let mut shown: Vec<_> = shown.iter().map(|s| s.json.clone()).collect();
    shown.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    Value::Array(shown)
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

fn qos_word(class: QosClass) -> &'static str {
    match class {
        QosClass::Guaranteed => "Guaranteed",
        QosClass::Burstable => "Burstable",
        QosClass::BestEffort => "BestEffort",
    }
}
