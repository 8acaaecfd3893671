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

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::admission::{Gate, Rejection};
use super::manifest::{Remark, Weight};
use super::source::Snapshot;
use crate::manager::{Objects, PodInput};
use crate::pod::{Pod, RestartPolicy};

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
struct Spoken {
    pods: Vec<Wanted>,
    remarks: Vec<Remark>,
    objects: Arc<Objects>,
}

/// A pod that a source names.
#[derive(Debug)]
struct Wanted {
    input: PodInput,
    origin: String,
    line: usize,
}

impl Wanted {
    /// Where its manifest is, for people.
    fn place(&self) -> String {
        match self.line {
            0 => self.origin.clone(),
            line => format!("{}:{line}", self.origin),
        }
    }

    fn remark(&self, text: String) -> Remark {
        Remark {
            origin: self.origin.clone(),
            line: (self.line > 0).then_some(self.line),
            object: format!("Pod {}", self.input.full_name()),
            weight: Weight::Error,
            text,
        }
    }
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
        let Some(slot) = self.sources.get_mut(place) else {
            return;
        };
        let Snapshot {
            pods,
            objects: written,
            mut remarks,
        } = snapshot;
        let mut objects = Objects::default();
        for object in &written {
            if let Err(error) = objects.add(object) {
                remarks.push(Remark {
                    origin: String::new(),
                    line: None,
                    object: object["kind"].as_str().unwrap_or_default().to_owned(),
                    weight: Weight::Error,
                    text: error.to_string(),
                });
            }
        }
        let before = slot.take();
        let objects = match &before {
            Some(before) if *before.objects == objects => Arc::clone(&before.objects),
            _ => Arc::new(objects),
        };
        // What has not changed is not read again.
        let read: BTreeMap<&str, &PodInput> = before
            .iter()
            .filter(|before| Arc::ptr_eq(&before.objects, &objects))
            .flat_map(|before| &before.pods)
            .map(|wanted| (wanted.input.uid(), &wanted.input))
            .collect();
        let mut wanted = Vec::new();
        for pod in pods {
            let uid = pod.manifest["metadata"]["uid"].as_str().unwrap_or_default();
            let same = read
                .get(uid)
                .filter(|input| *input.manifest == pod.manifest);
            let input = match same {
                Some(input) => Ok((*input).clone()),
                None => PodInput::new(pod.kind, pod.manifest, Arc::clone(&objects)),
            };
            match input {
                Ok(input) => wanted.push(Wanted {
                    input,
                    origin: pod.origin,
                    line: pod.line,
                }),
                Err(error) => remarks.push(Remark {
                    origin: pod.origin,
                    line: (pod.line > 0).then_some(pod.line),
                    object: "Pod".to_owned(),
                    weight: Weight::Error,
                    text: error.to_string(),
                }),
            }
        }
        *slot = Some(Spoken {
            pods: wanted,
            remarks,
            objects,
        });
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
                self.leaving
                    .insert(uid.clone(), Arc::clone(&known.input.pod));
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
                        "another pod of this name comes from {other}: it is used, this is not"
                    )));
                } else if !uids.insert(wanted.input.uid().to_owned()) {
                    let text = format!("another pod has the uid {:?}", wanted.input.uid());
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
        let verdict = self.admit(uid, &known.input.pod, gate);
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

    fn admit(&self, uid: &str, pod: &Pod, gate: &Gate) -> Result<(), Rejection> {
        let running = self
            .known
            .iter()
            .filter(|(other, known)| {
                *other != uid && known.state == State::Running && !self.over.contains(*other)
            })
            .map(|(_, known)| &*known.input.pod);
        let others = self.leaving.values().chain(self.strangers.values());
        gate.admit(pod, running.chain(others.map(|pod| &**pod)))
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
            let pod = Arc::clone(&known.input.pod);
            let others = self
                .known
                .iter()
                .filter(|(other, known)| {
                    known.state == State::Running && !self.over.contains(*other)
                })
                .map(|(_, known)| &*known.input.pod)
                .chain(self.leaving.values().map(|pod| &**pod))
                .chain(self.strangers.values().map(|pod| &**pod))
                .chain(promised.iter().map(|pod: &Arc<Pod>| &**pod));
            if gate.admit(&pod, others.collect::<Vec<_>>()).is_err() {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::source::SourcePod;
    use super::*;
    use crate::pod::Quantity;

    fn pod(name: &str, uid: &str, port: u16) -> Value {
        json!({"metadata": {"name": name, "uid": uid}, "spec": {"containers": [{
            "name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": port}]}]}})
    }

    fn snapshot(pods: &[Value]) -> Snapshot {
        let pods = pods.iter().map(|manifest| SourcePod {
            manifest: manifest.clone(),
            kind: "file",
            origin: "f".to_owned(),
            line: 1,
        });
        Snapshot {
            pods: pods.collect(),
            ..Snapshot::default()
        }
    }

    fn gate() -> Gate {
        Gate {
            allocatable: [("pods".to_owned(), Quantity::from_units(10))].into(),
            ..Gate::default()
        }
    }

    fn shown(orders: &[Order]) -> Vec<String> {
        let words = orders.iter().map(|order| match order {
            Order::Remove(uid) => format!("remove {uid}"),
            Order::Set(input) => format!("set {}", input.uid()),
            Order::Reject(input, rejection) => {
                format!("reject {} {}", input.uid(), rejection.reason)
            }
        });
        words.collect()
    }

    fn told(roster: &mut Roster, pods: &[Value]) -> Vec<String> {
        roster.hear(0, snapshot(pods));
        shown(&roster.orders(&gate(), &BTreeSet::new()))
    }

    fn next(roster: &mut Roster) -> Vec<String> {
        shown(&roster.orders(&gate(), &BTreeSet::new()))
    }

    #[test]
    fn pods_come_and_go() {
        let mut roster = Roster::new(1, BTreeMap::new());
        assert!(!roster.is_complete());
        assert_eq!(told(&mut roster, &[pod("a", "1", 80)]), ["set 1"]);
        assert!(roster.is_complete());
        assert_eq!(
            told(&mut roster, &[pod("a", "1", 80)]),
            Vec::<String>::new()
        );
        assert_eq!(told(&mut roster, &[pod("a", "1", 81)]), ["set 1"]);
        assert_eq!(told(&mut roster, &[]), ["remove 1"]);
        roster.gone("1");
        assert_eq!(told(&mut roster, &[pod("a", "1", 81)]), ["set 1"]);
    }

    #[test]
    fn a_new_pod_of_an_old_name_waits_for_the_old_one() {
        let mut roster = Roster::new(1, BTreeMap::new());
        told(&mut roster, &[pod("a", "1", 80)]);
        assert_eq!(told(&mut roster, &[pod("a", "2", 80)]), ["remove 1"]);
        assert_eq!(next(&mut roster), Vec::<String>::new());
        roster.gone("1");
        assert_eq!(next(&mut roster), ["set 2"]);
        // Back to the first before the second has gone.
        assert_eq!(told(&mut roster, &[pod("a", "1", 80)]), ["remove 2"]);
        assert_eq!(told(&mut roster, &[]), Vec::<String>::new());
    }

    #[test]
    fn a_pod_that_changed_while_no_agent_ran_waits_for_its_old_self() {
        let old: Pod = serde_json::from_value(pod("a", "1", 80)).unwrap();
        let mut roster = Roster::new(1, BTreeMap::from([("1".to_owned(), Arc::new(old))]));
        assert_eq!(
            told(&mut roster, &[pod("a", "2", 80)]),
            Vec::<String>::new()
        );
        assert!(roster.is_complete());
        roster.dismiss_strangers();
        assert_eq!(next(&mut roster), Vec::<String>::new());
        roster.gone("1");
        assert_eq!(next(&mut roster), ["set 2"]);
    }

    #[test]
    fn who_was_turned_away_comes_in_when_there_is_room() {
        let mut roster = Roster::new(1, BTreeMap::new());
        let (a, b) = (pod("a", "1", 80), pod("b", "2", 80));
        assert_eq!(
            told(&mut roster, &[a.clone(), b.clone()]),
            ["set 1", "reject 2 NodePorts"]
        );
        assert_eq!(told(&mut roster, std::slice::from_ref(&b)), ["remove 1"]);
        assert_eq!(next(&mut roster), Vec::<String>::new());
        roster.gone("1");
        assert_eq!(next(&mut roster), ["remove 2"]);
        roster.gone("2");
        assert_eq!(next(&mut roster), ["set 2"]);
        // A pod that is over holds nothing.
        assert_eq!(told(&mut roster, &[b, a]), ["reject 1 NodePorts"]);
        assert!(roster.set_over("2", true));
        assert_eq!(next(&mut roster), ["remove 1"]);
    }

    #[test]
    fn who_ran_before_comes_first() {
        let mut roster = Roster::new(1, BTreeMap::new());
        roster.hear(0, snapshot(&[pod("a", "1", 80), pod("b", "2", 80)]));
        let before = BTreeSet::from(["2".to_owned()]);
        assert_eq!(
            shown(&roster.orders(&gate(), &before)),
            ["set 2", "reject 1 NodePorts"]
        );
    }

    #[test]
    fn the_evicted_come_back_after_the_pressure() {
        let mut roster = Roster::new(1, BTreeMap::new());
        told(&mut roster, &[pod("a", "1", 80)]);
        roster.evicted("1");
        let mut pressed = gate();
        pressed.pressures.insert("MemoryPressure");
        assert_eq!(
            shown(&roster.orders(&pressed, &BTreeSet::new())),
            Vec::<String>::new()
        );
        assert_eq!(next(&mut roster), ["remove 1"]);
        roster.gone("1");
        assert_eq!(next(&mut roster), ["set 1"]);
    }

    #[test]
    fn of_two_pods_of_one_name_the_first_is_used_and_the_other_told() {
        let mut roster = Roster::new(2, BTreeMap::new());
        roster.hear(0, snapshot(&[pod("a", "1", 80)]));
        roster.hear(1, snapshot(&[pod("a", "2", 81), pod("b", "1", 82)]));
        assert_eq!(next(&mut roster), ["set 1"]);
        assert_eq!(roster.remarks().len(), 2, "{:?}", roster.remarks());
        assert!(roster.remarks()[0].text.contains("f:1"));
    }
}
