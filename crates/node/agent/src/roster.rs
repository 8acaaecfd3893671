//! Which pods there are to be: what the sources say, made one, and what became of each.
//!
//! ```text
//!             ┌── its name is still taken ──► waiting ──┐
//!   wanted ───┤                                         ▼
//!             └───────────────────────────────────► the gate ──► running
//!                                                    │   ▲          │
//!                                     no room for it ▼   │          ▼ the node is low on something
//!                                                rejected┴────── evicted
//! ```
//!
//! Unlike under a kubelet, what was rejected or evicted is tried again when there is room for it:
//! nobody else would.

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

/// What a manager is to do, in this order.
#[derive(Debug, Clone)]
pub(super) enum Order {
    /// End it and forget it.
    Remove(String),
    /// Have it run.
    Set(PodInput),
    /// Show it as not let in.
    Reject(PodInput, Rejection),
}

/// All pods that are wanted.
#[derive(Debug, Default)]
pub(super) struct Roster {
    /// What each source last said; `None` until it has spoken.
    sources: Vec<Option<Spoken>>,
    known: BTreeMap<String, Known>,
    /// Pods that ran before the agent started and that no source has named yet.
    strangers: BTreeMap<String, Arc<Pod>>,
    /// Pods that are being ended, by uid.
    leaving: BTreeMap<String, Arc<Pod>>,
    /// Pods that are over: they hold no resources.
    over: BTreeSet<String>,
    /// What is wrong with what was said, by source and between sources.
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
    /// For so many sources, beside pods that ran before the agent started.
    pub(super) fn new(sources: usize, before: BTreeMap<String, Arc<Pod>>) -> Self {
        Self {
            sources: (0..sources).map(|_| None).collect(),
            strangers: before,
            ..Self::default()
        }
    }

    /// All sources have spoken: who has not been named is being ended.
    pub(super) fn dismiss_strangers(&mut self) {
        self.leaving.append(&mut self.strangers);
    }

    /// Whether every source has spoken.
    pub(super) fn is_complete(&self) -> bool {
        self.sources.iter().all(Option::is_some)
    }

    /// What is wrong with what the sources say.
    pub(super) fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// Where a pod's manifest is.
    pub(super) fn origin(&self, uid: &str) -> Option<&str> {
        self.known.get(uid).map(|known| known.origin.as_str())
    }

    /// Takes in what a source says.
    pub(super) fn hear(&mut self, place: usize, snapshot: Snapshot) {
        if let Some(slot) = self.sources.get_mut(place) {
            let before = slot.take();
            *slot = Some(Spoken::new(snapshot, before));
        }
    }

    /// What there is to do. `before` are the pods that ran before the agent started: they come
    /// first, so that a new pod takes nothing away from them.
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
                // What its class takes is taken until it is gone.
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

    /// A pod is gone with all that was of it.
    pub(super) fn gone(&mut self, uid: &str) {
        self.leaving.remove(uid);
        self.strangers.remove(uid);
        self.over.remove(uid);
    }

    /// The pods that are being ended and are not among these.
    pub(super) fn leaving_besides(&self, there: &BTreeSet<String>) -> Vec<String> {
        let leaving = self.leaving.keys();
        leaving
            .filter(|uid| !there.contains(*uid))
            .cloned()
            .collect()
    }

    /// A pod is over, or is not after all; says whether that is news.
    pub(super) fn set_over(&mut self, uid: &str, over: bool) -> bool {
        if over {
            self.known.contains_key(uid) && self.over.insert(uid.to_owned())
        } else {
            self.over.remove(uid)
        }
    }

    /// A pod was ended because the node is low on something.
    pub(super) fn evicted(&mut self, uid: &str) {
        if let Some(known) = self.known.get_mut(uid) {
            known.state = State::Evicted;
        }
    }

    /// The pods that run, by uid.
    pub(super) fn running(&self) -> impl Iterator<Item = &PodInput> {
        let running = self
            .known
            .values()
            .filter(|known| known.state == State::Running);
        running.map(|known| &known.input)
    }

    /// All pods that the sources name, the first of each name.
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
                // Its new manifest may fit; until then the old verdict stands.
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

    /// Lets a waiting pod in, or rejects it, unless its name is still taken.
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
        // Its class may ask for another value of the same label: then no node will do.
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

    /// Tries those again that wait, and those for whom there is room now.
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
            // What is shown of its former fate goes first; then it comes in as a new pod does.
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
