//! The mailbox of a pod worker: requests to it and the state it publishes. The kubelet's
//! `UpdatePod` ends here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::v1::ContainerEventType;
use orlop_kubelet_rules::actions::{ProbeResult, ProbeResults};
use orlop_kubelet_rules::probe::ProbeKind;
use orlop_kubelet_rules::status::ContainerState;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

use crate::pod_input::PodInput;
use crate::pod_status::Observation;
use crate::pod_view::PodView;

/// Requests to a pod's worker, and the state that the worker publishes.
#[derive(Debug)]
pub(crate) struct Mailbox {
    pub(crate) uid: String,
    state: Mutex<State>,
    bell: Notify,
    ending: watch::Sender<Option<Ending>>,
    seen: watch::Sender<Seen>,
    results: Mutex<BTreeMap<(String, ProbeKindKey), ProbeResult>>,
}

type ProbeKindKey = u8;

/// Why a pod terminates, and how fast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) cause: Cause,
    /// Overrides the pod's own grace period.
    pub(crate) grace: Option<Duration>,
}

/// Why a pod ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The pod was removed from its source.
    Removed,
    /// The manager decided to end the pod; its phase becomes `Failed`.
    Failed {
        /// The reason in one word.
        reason: String,
        /// The message that explains it.
        message: String,
    },
    /// The node shuts down; the pod starts again after the boot.
    Shutdown,
}

/// The last observation of the worker, for probes and API requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) observation: Arc<Observation>,
    pub(crate) finished: bool,
    pub(crate) deleted: bool,
}

#[derive(Debug)]
struct State {
    input: Arc<PodInput>,
    generation: u64,
    again: Option<PodInput>,
    confirmed: bool,
    dirty: bool,
    view: Option<Arc<PodView>>,
}

impl Mailbox {
    pub(crate) fn new(input: PodInput, confirmed: bool) -> Self {
        Self {
            uid: input.uid().to_owned(),
            state: Mutex::new(State {
                input: Arc::new(input),
                generation: 1,
                again: None,
                confirmed,
                dirty: true,
                view: None,
            }),
            bell: Notify::new(),
            ending: watch::Sender::new(None),
            seen: watch::Sender::default(),
            results: Mutex::default(),
        }
    }

    /// Sets the wanted pod; if the pod is being removed, it takes effect afterwards.
    pub(crate) fn set(&self, input: PodInput) {
        let mut state = self.state();
        state.confirmed = true;
        let leaves = matches!(&*self.ending.borrow(), Some(e) if e.cause == Cause::Removed);
        if leaves {
            state.again = Some(input);
        } else if state.input.manifest != input.manifest
            || state.input.objects != input.objects
            || state.input.source != input.source
        {
            state.input = Arc::new(input);
            state.generation += 1;
        }
        drop(state);
        self.bell.notify_one();
    }

    /// Requests the end of the pod. A removal overrides other causes; the shortest grace period
    /// counts.
    pub(crate) fn end(&self, wanted: Ending) {
        if wanted.cause == Cause::Removed {
            self.state().again = None;
        }
        self.ending.send_if_modified(|ending| match ending {
            None => {
                *ending = Some(wanted);
                true
            }
            Some(present) => {
                let before = present.clone();
                if wanted.cause == Cause::Removed {
                    present.cause = Cause::Removed;
                }
                present.grace = match (present.grace, wanted.grace) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                *present != before
            }
        });
        self.bell.notify_one();
    }

    pub(crate) fn ending(&self) -> watch::Receiver<Option<Ending>> {
        self.ending.subscribe()
    }

    /// Wakes the worker because the pod may have changed in the runtime.
    pub(crate) fn touch(&self) {
        self.state().dirty = true;
        self.bell.notify_one();
    }

    /// Marks the pod as possibly changed, without waking the worker.
    pub(crate) fn doubt(&self) {
        self.state().dirty = true;
    }

    /// Handles a container event. It wakes the worker only if the event is news to it.
    pub(crate) fn event(&self, id: &str, kind: ContainerEventType) {
        let known = {
            let seen = self.seen.borrow();
            let status = &seen.observation.status;
            let container = status.containers().iter().find(|c| c.id == id);
            let state = container.map(|c| c.state).or_else(|| {
                let sandbox = status.sandboxes().iter().find(|s| s.id == id)?;
                Some(if sandbox.ready {
                    ContainerState::Running
                } else {
                    ContainerState::Exited
                })
            });
            match kind {
                ContainerEventType::ContainerCreatedEvent => state.is_some(),
                ContainerEventType::ContainerStartedEvent => {
                    matches!(
                        state,
                        Some(ContainerState::Running | ContainerState::Exited)
                    )
                }
                ContainerEventType::ContainerStoppedEvent => state == Some(ContainerState::Exited),
                ContainerEventType::ContainerDeletedEvent => state.is_none(),
            }
        };
        if !known {
            self.touch();
        }
    }

    /// Wakes the worker although nothing has changed in the runtime.
    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    pub(crate) fn take_dirty(&self) -> bool {
        std::mem::take(&mut self.state().dirty)
    }

    pub(crate) fn input(&self) -> (Arc<PodInput>, u64) {
        let state = self.state();
        (state.input.clone(), state.generation)
    }

    /// Applies the input that arrived during termination and resets the mailbox; `false` if there
    /// is none.
    pub(crate) fn start_over(&self) -> bool {
        let mut state = self.state();
        let Some(input) = state.again.take() else {
            return false;
        };
        state.input = Arc::new(input);
        state.generation += 1;
        state.dirty = true;
        drop(state);
        self.ending.send_replace(None);
        self.seen.send_replace(Seen::default());
        true
    }

    /// Whether a source has listed the pod since the manager's start.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.state().confirmed
    }

    /// Returns the wanted pod and the last observation.
    pub(crate) fn snapshot(&self) -> (Arc<PodInput>, Arc<Observation>) {
        (self.input().0, self.observation())
    }

    pub(crate) fn full_name(&self) -> String {
        self.state().input.full_name()
    }

    pub(crate) fn view(&self) -> Option<Arc<PodView>> {
        self.state().view.clone()
    }

    /// Publishes a view; returns whether it differs from the last one.
    pub(crate) fn publish(&self, view: PodView) -> bool {
        let mut state = self.state();
        if state.view.as_deref() == Some(&view) {
            return false;
        }
        state.view = Some(Arc::new(view));
        true
    }

    pub(crate) fn seen(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    pub(crate) fn observation(&self) -> Arc<Observation> {
        self.seen.borrow().observation.clone()
    }

    pub(crate) fn show(&self, seen: Seen) {
        self.seen.send_if_modified(|present| {
            let other = !Arc::ptr_eq(&present.observation, &seen.observation)
                || (present.finished, present.deleted) != (seen.finished, seen.deleted);
            *present = seen;
            other
        });
    }

    /// Stores the result of a probe and wakes the worker if it is new.
    pub(crate) fn note_result(&self, id: &str, kind: ProbeKind, result: ProbeResult) {
        let before = self.results().insert((id.to_owned(), key(kind)), result);
        if before != Some(result) {
            self.bell.notify_one();
        }
    }

    pub(crate) fn result(&self, id: &str, kind: ProbeKind) -> Option<ProbeResult> {
        self.results().get(&(id.to_owned(), key(kind))).copied()
    }

    pub(crate) fn probe_results(&self) -> ProbeResults {
        let mut all = ProbeResults::default();
        for ((id, kind), result) in self.results().iter() {
            if *kind == key(ProbeKind::Liveness) {
                all.liveness.insert(id.clone(), *result);
            } else if *kind == key(ProbeKind::Startup) {
                all.startup.insert(id.clone(), *result);
            }
        }
        all
    }

    /// Forgets the probe results of containers that are gone.
    pub(crate) fn keep_results(&self, observation: &Observation) {
        let there = &observation.containers;
        self.results().retain(|(id, _), _| there.contains_key(id));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn results(&self) -> MutexGuard<'_, BTreeMap<(String, ProbeKindKey), ProbeResult>> {
        self.results.lock()
    }
}

fn key(kind: ProbeKind) -> ProbeKindKey {
    match kind {
        ProbeKind::Liveness => 0,
        ProbeKind::Readiness => 1,
        ProbeKind::Startup => 2,
    }
}
