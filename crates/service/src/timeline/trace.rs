//! The calls and steps of one pod's start, or of one pull.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::metrics::{Metrics, Outcome};
use super::origin::{Origin, TraceParent};
use super::traces::{FinishedCall, Listeners};
use crate::clock;

/// Spans of one trace; what a pod with hundreds of containers has beyond is counted only.
const MAX_SPANS: usize = 256;

/// Spans that there is room for from the beginning: a pod's start with one container. What a
/// trace keeps is allocated at one time: hundreds of them shall not hold a page for each span.
const USUAL_SPANS: usize = 16;

/// What a trace is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A pod and its containers.
    Pod,
    /// An image.
    Pull,
}

/// What is known of a trace from its beginning.
#[derive(Debug, Clone)]
pub struct TraceFacts {
    /// What it is about.
    pub kind: Kind,
    /// The pod's id, or the image's name.
    pub id: String,
    /// The name for people: `NAMESPACE/NAME` or the image's.
    pub name: String,
    /// The runtime that runs the pod; empty for a pull.
    pub handler: String,
    /// Nanoseconds since 1970.
    pub started_at: i64,
}

/// The calls and steps so far.
#[derive(Debug)]
pub struct Trace {
    /// What it is about.
    pub facts: TraceFacts,
    /// When its first call arrived.
    begin: OnceLock<Instant>,
    spans: Mutex<Spans>,
    metrics: Metrics,
    listeners: Arc<Listeners>,
}

#[derive(Debug)]
struct Spans {
    list: Vec<Span>,
    left_out: u64,
}

/// A call, or a step of one.
#[derive(Debug, Clone)]
pub struct Span {
    /// The call's or the step's name.
    pub name: &'static str,
    /// The name of the container that it is for; empty for the pod itself.
    pub container: Arc<str>,
    /// The number of the call that this is a step of; none for a call.
    pub call: Option<usize>,
    /// After the trace's beginning.
    pub start: Duration,
    /// None while it goes on.
    pub took: Option<Duration>,
    /// Whether it failed.
    pub failed: bool,
    /// The client's span, for a call.
    pub parent: Option<TraceParent>,
}

impl Trace {
    pub(super) fn new(facts: TraceFacts, metrics: Metrics, listeners: Arc<Listeners>) -> Self {
        Self {
            facts,
            begin: OnceLock::new(),
            spans: Mutex::new(Spans {
                list: Vec::with_capacity(USUAL_SPANS),
                left_out: 0,
            }),
            metrics,
            listeners,
        }
    }

    /// What has been noted, in the order in which it began.
    pub fn spans(&self) -> Vec<Span> {
        self.lock().list.clone()
    }

    /// How many spans there was no room for.
    pub fn left_out(&self) -> u64 {
        self.lock().left_out
    }

    /// The time that clients waited for its calls so far.
    pub fn waited(&self) -> Duration {
        let spans = self.lock();
        let calls = spans.list.iter().filter(|span| span.call.is_none());
        calls
            .map(|call| call.took.unwrap_or_else(|| self.since(call.start)))
            .sum()
    }

    /// Begins a call. The time until now is its first step: waiting for its turn.
    pub fn begin(self: &Arc<Self>, name: &'static str, container: &str, origin: Origin) -> Call {
        self.begin_at(name, container, origin, Instant::now())
    }

    /// Begins a call of which some steps were taken before it was known which pod they are for.
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
        let container = self.named(container);
        let index = self.add(Span {
            name,
            container: Arc::clone(&container),
            call: None,
            start: self.offset(arrived),
            took: None,
            failed: false,
            parent: origin.parent,
        });
        let waited = now.saturating_duration_since(arrived);
        let call = Call {
            trace: Arc::clone(self),
            name,
            index,
            container,
            arrived,
            outcome: Outcome::Failed,
        };
        if origin.arrived.is_some() {
            call.note("queue", arrived, waited, Outcome::Done);
        }
        call
    }

    /// Does a step of the call that is open for this container, or for the pod.
    pub async fn step<T, E>(
        &self,
        name: &'static str,
        container: &str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let start = Instant::now();
        let result = work.await;
        let took = start.elapsed();
        let outcome = Outcome::of(&result);
        self.metrics.step(&self.facts.handler, name, took);
        let call = self.open_call(container);
        self.add(Span {
            name,
            container: self.named(container),
            call,
            start: self.offset(start),
            took: Some(took),
            failed: outcome == Outcome::Failed,
            parent: None,
        });
        result
    }

    /// A container's name, once for all spans that are for it.
    fn named(&self, container: &str) -> Arc<str> {
        let spans = self.lock();
        let same = spans.list.iter().find(|span| &*span.container == container);
        same.map_or_else(|| container.into(), |span| Arc::clone(&span.container))
    }

    fn open_call(&self, container: &str) -> Option<usize> {
        let spans = self.lock();
        spans.list.iter().rposition(|span| {
            span.call.is_none() && span.took.is_none() && &*span.container == container
        })
    }

    fn add(&self, span: Span) -> Option<usize> {
        let mut spans = self.lock();
        if spans.list.len() >= MAX_SPANS {
            spans.left_out += 1;
            return None;
        }
        spans.list.push(span);
        Some(spans.list.len() - 1)
    }

    /// How long after the beginning.
    fn offset(&self, at: Instant) -> Duration {
        at.saturating_duration_since(*self.begin.get_or_init(|| at))
    }

    fn since(&self, start: Duration) -> Duration {
        self.offset(Instant::now()).saturating_sub(start)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Spans> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Steps taken before it is known which pod they are for.
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
    /// None yet, from now on.
    pub fn begin() -> Self {
        Self {
            begun: Instant::now(),
            steps: Vec::new(),
        }
    }

    /// Does a step.
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

/// A call under way; one that is dropped without having been [ended](Call::end) has failed.
#[derive(Debug)]
pub struct Call {
    trace: Arc<Trace>,
    name: &'static str,
    index: Option<usize>,
    container: Arc<str>,
    arrived: Instant,
    outcome: Outcome,
}

impl Call {
    /// Ends it as its result says.
    pub fn end<T, E>(mut self, result: &Result<T, E>) {
        self.outcome = Outcome::of(result);
    }

    /// The trace that it belongs to.
    pub fn trace(&self) -> &Arc<Trace> {
        &self.trace
    }

    /// Adds a step of it that is over.
    pub fn note(&self, name: &'static str, start: Instant, took: Duration, outcome: Outcome) {
        let trace = &self.trace;
        trace.metrics.step(&trace.facts.handler, name, took);
        trace.add(Span {
            name,
            container: Arc::clone(&self.container),
            call: self.index,
            start: trace.offset(start),
            took: Some(took),
            failed: outcome == Outcome::Failed,
            parent: None,
        });
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
        let Some(index) = self.index else { return };
        let spans = {
            let mut spans = self.trace.lock();
            let Some(span) = spans.list.get_mut(index) else {
                return;
            };
            span.took = Some(took);
            span.failed = self.outcome == Outcome::Failed;
            if !self.trace.listeners.wanted() {
                return;
            }
            let mine = |(at, span): &(usize, &Span)| *at == index || span.call == Some(index);
            let list = spans.list.iter().enumerate().filter(mine);
            list.map(|(_, span)| span.clone()).collect()
        };
        // By the wall clock, as it was when the trace began.
        let late = self.trace.offset(Instant::now());
        let begun_at = clock::now() - i64::try_from(late.as_nanos()).unwrap_or(0);
        self.trace.listeners.tell(&FinishedCall {
            facts: facts.clone(),
            begun_at,
            spans,
        });
    }
}
