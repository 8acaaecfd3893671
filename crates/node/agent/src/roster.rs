//! The pods that should run: merges the sources, and tracks the state of each pod.
//!
//! ```text
//!             ┌── its name is still taken ──► waiting ──┐
//!   wanted ───┤                                         ▼
//!             └───────────────────────────────────► admission ─► running
//!                                                    │   ▲          │
//!                                     no room for it ▼   │          ▼ the node is low on something
//!                                                rejected┴────── evicted
//! ```
//!
//! Unlike a kubelet, the roster retries a rejected or evicted pod when there is room, because no
//! controller would.

#[cfg(test)]
mod class_tests;
mod spoken;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orlop_kubelet_rules::pod::{Pod, RestartPolicy};
use orlop_kuberuntime::manager::PodInput;

use super::admission::{Gate, Rejection};
use super::manifest::Remark;
use super::source::Snapshot;
use spoken::Spoken;

/// Instructions for the manager, in order.
#[derive(Debug, Clone)]
pub(super) enum Order {
    /// Stop the pod and forget it.
    Remove(String),
    /// Run the pod.
    Set(PodInput),
    /// Show the pod as rejected.
    Reject(PodInput, Rejection),
}

/// All wanted pods and their states.
#[derive(Debug, Default)]
pub(super) struct Roster {
    /// The last snapshot of each source; `None` until its first one.
    sources: Vec<Option<Spoken>>,
    known: BTreeMap<String, Known>,
    /// Pods that ran before the agent started and that no source has listed yet.
    strangers: BTreeMap<String, Arc<Pod>>,
    /// Pods that are being removed, by uid.
    leaving: BTreeMap<String, Arc<Pod>>,
    /// Finished pods: they hold no resources.
    over: BTreeSet<String>,
    /// Problems within sources and between them.
    remarks: Vec<Remark>,
}

#[derive(Debug)]
struct Known {
    input: PodInput,
    state: State,
    origin: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Rejected(Rejection),
    Evicted,
}

impl Roster {
    /// Creates a roster for a number of sources, with the pods that ran before the agent started.
    pub(super) fn new(sources: usize, before: BTreeMap<String, Arc<Pod>>) -> Self {
        Self {
            sources: (0..sources).map(|_| None).collect(),
            strangers: before,
            ..Self::default()
        }
    }

    /// Treats pods that no source has listed as leaving, once all sources have been read.
    pub(super) fn dismiss_strangers(&mut self) {
        self.leaving.append(&mut self.strangers);
    }

    /// Whether every source has sent a snapshot.
    pub(super) fn is_complete(&self) -> bool {
        self.sources.iter().all(Option::is_some)
    }

    /// Returns the problems of the sources.
    pub(super) fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// Returns the origin of a pod's manifest.
    pub(super) fn origin(&self, uid: &str) -> Option<&str> {
        self.known.get(uid).map(|known| known.origin.as_str())
    }

    /// Stores the snapshot of a source.
    pub(super) fn hear(&mut self, place: usize, snapshot: Snapshot) {
        if let Some(slot) = self.sources.get_mut(place) {
            let before = slot.take();
            *slot = Some(Spoken::new(snapshot, before));
        }
    }

    /// Returns the next orders. Pods in `before` ran before the agent started; they come first, so
    /// that a new pod does not take their resources.
    pub(super) fn orders(&mut self, gate: &Gate, before: &BTreeSet<String>) -> Vec<Order> {
        let mut orders = Vec::new();
        let wanted = self.wanted();
        let uids: BTreeSet<&str> = wanted.iter().map(|(input, _)| input.uid()).collect();
        let gone: Vec<String> = self
            .known
            .keys()
            .filter(|uid| !uids.contains(uid.as_str()))
            .cloned()
            .collect();
        for uid in gone {
            let Some(known) = self.known.remove(&uid) else {
                continue;
            };
            if known.state != State::Waiting {
                // A removed pod keeps its overhead until it is gone.
                self.leaving.insert(uid.clone(), known.input.with_class());
                self.over.remove(&uid);
                orders.push(Order::Remove(uid));
            }
        }
        let (first, second): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|(input, _)| before.contains(input.uid()));
        for (input, origin) in first.into_iter().chain(second) {
            self.want(input, origin, gate, &mut orders);
        }
        self.retry(gate, &mut orders);
        orders
    }

    /// Notes that a pod is gone completely.
    pub(super) fn gone(&mut self, uid: &str) {
        self.leaving.remove(uid);
        self.strangers.remove(uid);
        self.over.remove(uid);
    }

    /// Lists the pods that are being removed and are not in `there`.
    pub(super) fn leaving_besides(&self, there: &BTreeSet<String>) -> Vec<String> {
        let leaving = self.leaving.keys();
        leaving
            .filter(|uid| !there.contains(*uid))
            .cloned()
            .collect()
    }

    /// Sets whether a pod is finished; returns whether that is new.
    pub(super) fn set_over(&mut self, uid: &str, over: bool) -> bool {
        if over {
            self.known.contains_key(uid) && self.over.insert(uid.to_owned())
        } else {
            self.over.remove(uid)
        }
    }

    /// Marks a pod as evicted.
    pub(super) fn evicted(&mut self, uid: &str) {
        if let Some(known) = self.known.get_mut(uid) {
            known.state = State::Evicted;
        }
    }

    /// Lists the running pods, by uid.
    pub(super) fn running(&self) -> impl Iterator<Item = &PodInput> {
        let running = self
            .known
            .values()
            .filter(|known| known.state == State::Running);
        running.map(|known| &known.input)
    }

    /// Returns all pods of the sources, the first of each name.
    fn wanted(&mut self) -> Vec<(PodInput, String)> {
        let mut remarks = Vec::new();
        let mut all = Vec::new();
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        let mut uids = BTreeSet::new();
        for spoken in self.sources.iter().flatten() {
            remarks.extend(spoken.remarks.iter().cloned());
            for wanted in &spoken.pods {
                let name = wanted.input.full_name();
                if let Some(other) = names.get(&name) {
                    remarks.push(wanted.remark(format!(
                        "{other} defines another pod with this name; the node uses that pod and \
                         ignores this one"
                    )));
                } else if !uids.insert(wanted.input.uid().to_owned()) {
                    let text = format!("another pod has the same UID {:?}", wanted.input.uid());
                    remarks.push(wanted.remark(text));
                } else {
                    names.insert(name, wanted.place());
                    all.push((wanted.input.clone(), wanted.origin.clone()));
                }
            }
        }
        self.remarks = remarks;
        all
    }

    fn want(&mut self, input: PodInput, origin: String, gate: &Gate, orders: &mut Vec<Order>) {
        let uid = input.uid().to_owned();
        if let Some(known) = self.known.get_mut(&uid) {
            known.origin = origin;
            let same = Arc::ptr_eq(&known.input.objects, &input.objects)
                && (Arc::ptr_eq(&known.input.manifest, &input.manifest)
                    || known.input.manifest == input.manifest);
            if same {
                return;
            }
            known.input = input.clone();
            match known.state {
                State::Running => orders.push(Order::Set(input)),
                // The new manifest may fit; until the next retry, the old state stays.
                State::Waiting | State::Rejected(_) | State::Evicted => {}
            }
            return;
        }
        self.strangers.remove(&uid);
        let known = Known {
            input,
            state: State::Waiting,
            origin,
        };
        self.known.insert(uid.clone(), known);
        self.consider(&uid, gate, orders);
    }

    /// Admits or rejects a waiting pod, unless its name is still taken.
    fn consider(&mut self, uid: &str, gate: &Gate, orders: &mut Vec<Order>) {
        let Some(known) = self.known.get(uid) else {
            return;
        };
        let meta = &known.input.pod.metadata;
        let taken = self.leaving.contains_key(uid)
            || self
                .leaving
                .values()
                .chain(self.strangers.values())
                .any(|pod| {
                    pod.metadata.name == meta.name && pod.metadata.namespace == meta.namespace
                });
        if taken {
            return;
        }
        let verdict = self.admit(uid, &known.input, gate);
        let input = known.input.clone();
        let state = match verdict {
            Ok(()) => {
                orders.push(Order::Set(input));
                State::Running
            }
            Err(rejection) => {
                orders.push(Order::Reject(input, rejection.clone()));
                State::Rejected(rejection)
            }
        };
        if let Some(known) = self.known.get_mut(uid) {
            known.state = state;
        }
    }

    fn admit(&self, uid: &str, input: &PodInput, gate: &Gate) -> Result<(), Rejection> {
        // The RuntimeClass may require another value of the same label: then no node matches.
        gate.selector(&input.pod)?;
        let running: Vec<_> = self
            .known
            .iter()
            .filter(|(other, known)| {
                *other != uid && known.state == State::Running && !self.over.contains(*other)
            })
            .map(|(_, known)| known.input.with_class())
            .collect();
        let others = self.leaving.values().chain(self.strangers.values());
        let all = running.iter().chain(others);
        gate.admit(&input.with_class(), all.map(|pod| &**pod))
    }

    /// Retries waiting pods, and rejected or evicted ones that now fit.
    fn retry(&mut self, gate: &Gate, orders: &mut Vec<Order>) {
        let waiting: Vec<String> = self
            .known
            .iter()
            .filter(|(_, known)| known.state == State::Waiting)
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in waiting {
            self.consider(&uid, gate, orders);
        }
        let out: Vec<String> = self
            .known
            .iter()
            .filter(|(_, known)| match known.state {
                State::Rejected(_) => true,
                State::Evicted => {
                    gate.pressures.is_empty()
                        && known.input.pod.spec.restart_policy == RestartPolicy::Always
                }
                _ => false,
            })
            .map(|(uid, _)| uid.clone())
            .collect();
        let mut promised = Vec::new();
        for uid in out {
            let Some(known) = self.known.get(&uid) else {
                continue;
            };
            let pod = known.input.with_class();
            let others: Vec<_> = self
                .known
                .iter()
                .filter(|(other, known)| {
                    known.state == State::Running && !self.over.contains(*other)
                })
                .map(|(_, known)| known.input.with_class())
                .chain(self.leaving.values().cloned())
                .chain(self.strangers.values().cloned())
                .chain(promised.iter().cloned())
                .collect();
            let own_labels = gate.selector(&known.input.pod);
            let verdict =
                own_labels.and_then(|()| gate.admit(&pod, others.iter().map(|pod| &**pod)));
            if verdict.is_err() {
                continue;
            }
            // Remove the record of its rejection or eviction first; then it is admitted like a new
            // pod.
            orders.push(Order::Remove(uid.clone()));
            self.leaving.insert(uid.clone(), Arc::clone(&pod));
            self.over.remove(&uid);
            promised.push(pod);
            if let Some(known) = self.known.get_mut(&uid) {
                known.state = State::Waiting;
            }
        }
    }
}
