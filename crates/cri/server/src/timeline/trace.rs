//! Trace of one pod's start or of one pull.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::facts::{Kind, NewFacts, TraceFacts};
use super::finished::FinishedCall;
use super::kept_spans::{KeptSpans, Place};
use super::listeners::Listeners;
use super::metrics::{Metrics, Outcome};
use super::open_steps::{OpenStep, OpenSteps};
use super::origin::Origin;
use super::sampling::Wanted;
use super::span::Span;
use crate::clock;

/// A trace: the calls and steps so far.
#[derive(Debug)]
pub struct Trace {
    /// The facts about the trace.
    pub facts: TraceFacts,
    /// The arrival time of its first call.
    begin: OnceLock<Instant>,
    spans: Mutex<KeptSpans>,
    open: OpenSteps,
    metrics: Metrics,
    listeners: Arc<Listeners>,
}

impl Trace {
    pub(super) fn new(facts: TraceFacts, metrics: Metrics, listeners: Arc<Listeners>) -> Self {
        Self {
            facts,
            begin: OnceLock::new(),
            spans: Mutex::new(KeptSpans::new()),
            open: OpenSteps::default(),
            metrics,
            listeners,
        }
    }

    /// Resets the trace for another subject and reuses its memory.
    pub(super) fn begin_anew(&mut self, facts: &NewFacts<'_>) {
        self.facts.take_over(facts);
        self.begin = OnceLock::new();
        self.spans.get_mut().clear();
    }

    /// Whether this is the trace of the pod with this id.
    pub(super) fn is_of_pod(&self, id: &str) -> bool {
        self.facts.kind == Kind::Pod && self.facts.id == id
    }

    /// Returns the spans, in the order of their start.
    pub fn spans(&self) -> Vec<Span> {
        self.lock().all()
    }

    /// Returns the open steps, in the order of their start.
    pub fn open_steps(&self) -> Vec<OpenStep> {
        self.open.all()
    }

    /// Returns the number of spans dropped for lack of space.
    pub fn left_out(&self) -> u64 {
        self.lock().left_out()
    }

    /// Returns the total time that clients waited for its calls.
    pub fn waited(&self) -> Duration {
        let spans = self.lock();
        let calls = spans.calls();
        calls
            .map(|(start, took)| took.unwrap_or_else(|| self.since(start)))
            .sum()
    }

    /// Starts a call. The time since its arrival becomes its first step, the wait in the queue.
    pub fn begin(self: &Arc<Self>, name: &'static str, container: &str, origin: Origin) -> Call {
        self.begin_at(name, container, origin, Instant::now())
    }

    /// Starts a call with steps that were recorded before the pod was known.
    pub fn begin_after(
        self: &Arc<Self>,
        early: Early,
        name: &'static str,
        container: &str,
        origin: Origin,
    ) -> Call {
        let call = self.begin_at(name, container, origin, early.begun);
        for step in early.steps {
            call.note(step.name, step.start, step.took, step.outcome);
        }
        call
    }

    fn begin_at(
        self: &Arc<Self>,
        name: &'static str,
        container: &str,
        origin: Origin,
        now: Instant,
    ) -> Call {
        let arrived = origin.arrived.unwrap_or(now);
        let _ = self.begin.set(arrived);
        let container: Arc<str> = container.into();
        let start = self.offset(arrived);
        let place = self
            .lock()
            .begin_call(name, &container, start, origin.parent);
        let waited = now.saturating_duration_since(arrived);
        let call = Call {
            trace: Arc::clone(self),
            name,
            place,
            container,
            arrived,
            outcome: Outcome::Failed,
        };
        if origin.arrived.is_some() {
            call.note("queue", arrived, waited, Outcome::Done);
        }
        call
    }

    /// Runs a step of the open call for this container, or for the pod.
    pub async fn step<T, E>(
        &self,
        name: &'static str,
        container: &str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let start = Instant::now();
        let open = self.open.begin(name, container, start);
        let result = work.await;
        drop(open);
        let took = start.elapsed();
        let outcome = Outcome::of(&result);
        self.metrics.step(&self.facts.handler, name, took);
        let start = self.offset(start);
        let mut spans = self.lock();
        let call = spans.open_call(container);
        spans.add_step(name, container, call, (start, took), outcome);
        result
    }

    /// Returns the time since the start of the trace.
    fn offset(&self, at: Instant) -> Duration {
        at.saturating_duration_since(*self.begin.get_or_init(|| at))
    }

    fn since(&self, start: Duration) -> Duration {
        self.offset(Instant::now()).saturating_sub(start)
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, KeptSpans> {
        self.spans.lock()
    }
}

/// Steps that are recorded before the pod is known.
#[derive(Debug)]
pub struct Early {
    begun: Instant,
    steps: Vec<EarlyStep>,
}

#[derive(Debug)]
struct EarlyStep {
    name: &'static str,
    start: Instant,
    took: Duration,
    outcome: Outcome,
}

impl Early {
    /// Creates an empty list that starts now.
    pub fn begin() -> Self {
        Self {
            begun: Instant::now(),
            steps: Vec::new(),
        }
    }

    /// Runs and records a step.
    pub async fn step<T, E>(
        &mut self,
        name: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let start = Instant::now();
        let result = work.await;
        self.steps.push(EarlyStep {
            name,
            start,
            took: start.elapsed(),
            outcome: Outcome::of(&result),
        });
        result
    }
}

/// A call in progress. If it is dropped without [`end`](Call::end), it counts as failed.
#[derive(Debug)]
pub struct Call {
    trace: Arc<Trace>,
    name: &'static str,
    /// The index of its span; `None` if there was no space.
    place: Option<Place>,
    container: Arc<str>,
    arrived: Instant,
    outcome: Outcome,
}

impl Call {
    /// Ends the call with the outcome of its result.
    pub fn end<T, E>(mut self, result: &Result<T, E>) {
        self.outcome = Outcome::of(result);
    }

    /// Returns the trace of the call.
    pub fn trace(&self) -> &Arc<Trace> {
        &self.trace
    }

    /// Adds a finished step.
    pub fn note(&self, name: &'static str, start: Instant, took: Duration, outcome: Outcome) {
        let trace = &self.trace;
        trace.metrics.step(&trace.facts.handler, name, took);
        let time = (trace.offset(start), took);
        let mut spans = trace.lock();
        spans.add_step(name, &self.container, self.place, time, outcome);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let took = self.arrived.elapsed();
        let facts = &self.trace.facts;
        self.trace.metrics.step(&facts.handler, self.name, took);
        if facts.kind == Kind::Pod {
            self.trace
                .metrics
                .call(&facts.handler, self.name, self.outcome);
        }
        let Some(place) = self.place else { return };
        let (trace, wanted, spans) = {
            let mut spans = self.trace.lock();
            spans.end_call(place, took, self.outcome);
            if self.trace.listeners.are_deaf() {
                return;
            }
            let parent = spans.parent_of(place);
            let trace = parent.map_or_else(|| facts.trace_id(), |parent| parent.trace);
            let wanted = Wanted {
                trace,
                by_client: parent.map(|parent| parent.sampled),
            };
            if !self.trace.listeners.want(wanted) {
                return;
            }
            (trace, wanted, spans.of_call(place))
        };
        // The wall-clock time at which the trace started.
        let late = self.trace.offset(Instant::now());
        let begun_at = clock::now() - i64::try_from(late.as_nanos()).unwrap_or(0);
        let call = FinishedCall {
            facts: facts.clone(),
            trace,
            begun_at,
            spans,
        };
        if !self.trace.listeners.tell(wanted, &call) {
            self.trace.metrics.lost(call.spans.len());
        }
    }
}
