//! Compact storage for the spans of a trace, in two allocations that the next trace reuses. Hundreds of traces live
//! between short-lived allocations; a fresh allocation for each would keep a page of its own in use.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::metrics::Outcome;
use super::origin::TraceParent;
use super::span::Span;

/// Maximum number of spans of a trace; more, as of a pod with hundreds of containers, are only counted.
pub(super) const MAX_SPANS: usize = 256;

/// Initial capacity in spans: a pod's start with one container.
const USUAL_SPANS: usize = 24;

/// A trace with a larger capacity shrinks before it is reused.
const MANY_SPANS: usize = 2 * USUAL_SPANS;

/// The same limit for bytes of names.
const MANY_BYTES: usize = 256;

/// The index of a span.
pub(super) type Place = u16;

/// The spans of one trace.
#[derive(Debug)]
pub(super) struct KeptSpans {
    spans: Vec<KeptSpan>,
    /// The concatenated container names.
    names: String,
    /// The parent spans of clients, by index.
    parents: Vec<(Place, TraceParent)>,
    left_out: u64,
}

#[derive(Debug, Clone)]
struct KeptSpan {
    name: &'static str,
    /// The start and end of the container's name.
    container: (u32, u32),
    /// Nanoseconds after the start of the trace.
    start: u64,
    /// Duration in nanoseconds; [`GOES_ON`] while the span is open.
    took: u64,
    call: Option<Place>,
    failed: bool,
}

/// The value of `took` for an open span.
const GOES_ON: u64 = u64::MAX;

impl KeptSpans {
    /// Creates empty storage with the usual capacity.
    pub(super) fn new() -> Self {
        Self {
            spans: Vec::with_capacity(USUAL_SPANS),
            names: String::new(),
            parents: Vec::new(),
            left_out: 0,
        }
    }

    /// Removes all spans and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.spans.clear();
        self.spans.shrink_to(MANY_SPANS);
        self.names.clear();
        self.names.shrink_to(MANY_BYTES);
        self.parents.clear();
        self.parents.shrink_to(USUAL_SPANS);
        self.left_out = 0;
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    pub(super) fn all(&self) -> Vec<Span> {
        self.told(|_, _| true)
    }

    /// Returns a call and its steps.
    pub(super) fn of_call(&self, call: Place) -> Vec<Span> {
        self.told(|place, span| place == call || span.call == Some(call))
    }

    /// Returns the client's span that a call belongs to.
    pub(super) fn parent_of(&self, call: Place) -> Option<&TraceParent> {
        let parent = self.parents.iter().find(|(of, _)| *of == call);
        parent.map(|(_, parent)| parent)
    }

    /// Returns the start and duration of each call; no duration while it is open.
    pub(super) fn calls(&self) -> impl Iterator<Item = (Duration, Option<Duration>)> {
        let calls = self.spans.iter().filter(|span| span.call.is_none());
        calls.map(|call| (Duration::from_nanos(call.start), call.took()))
    }

    /// Returns the latest open call for this container, or for the pod.
    pub(super) fn open_call(&self, container: &str) -> Option<Place> {
        let place = self.spans.iter().rposition(|span| {
            span.call.is_none() && span.took == GOES_ON && self.container(span) == container
        });
        place.and_then(|place| Place::try_from(place).ok())
    }

    pub(super) fn begin_call(
        &mut self,
        name: &'static str,
        container: &str,
        start: Duration,
        parent: Option<TraceParent>,
    ) -> Option<Place> {
        let place = self.add(container, |container| KeptSpan {
            name,
            container,
            start: nanos(start),
            took: GOES_ON,
            call: None,
            failed: false,
        })?;
        self.parents.extend(parent.map(|parent| (place, parent)));
        Some(place)
    }

    pub(super) fn end_call(&mut self, place: Place, took: Duration, outcome: Outcome) {
        if let Some(call) = self.spans.get_mut(usize::from(place)) {
            call.took = nanos(took);
            call.failed = outcome == Outcome::Failed;
        }
    }

    /// Adds a finished step with its start and duration.
    pub(super) fn add_step(
        &mut self,
        name: &'static str,
        container: &str,
        call: Option<Place>,
        (start, took): (Duration, Duration),
        outcome: Outcome,
    ) {
        self.add(container, |container| KeptSpan {
            name,
            container,
            start: nanos(start),
            took: nanos(took),
            call,
            failed: outcome == Outcome::Failed,
        });
    }

    fn add(&mut self, container: &str, span: impl FnOnce((u32, u32)) -> KeptSpan) -> Option<Place> {
        let place = Place::try_from(self.spans.len()).ok();
        let place = place.filter(|_| self.spans.len() < MAX_SPANS);
        let named = place.and_then(|_| self.named(container));
        let (Some(place), Some(container)) = (place, named) else {
            self.left_out += 1;
            return None;
        };
        self.spans.push(span(container));
        Some(place)
    }

    /// Returns the position of a container's name, which all its spans share.
    fn named(&mut self, container: &str) -> Option<(u32, u32)> {
        let same = self.spans.iter().rev();
        let mut same = same.filter(|span| self.container(span) == container);
        if let Some(span) = same.next() {
            return Some(span.container);
        }
        let start = u32::try_from(self.names.len()).ok()?;
        let end = u32::try_from(self.names.len() + container.len()).ok()?;
        self.names.push_str(container);
        Some((start, end))
    }

    fn container(&self, span: &KeptSpan) -> &str {
        let (start, end) = span.container;
        let range: Range<usize> = start as usize..end as usize;
        self.names.get(range).unwrap_or_default()
    }

    fn told(&self, wanted: impl Fn(Place, &KeptSpan) -> bool) -> Vec<Span> {
        let mut told: Vec<Span> = Vec::new();
        for (place, span) in (0..).zip(&self.spans) {
            if !wanted(place, span) {
                continue;
            }
            let container = self.container(span);
            let same = told.iter().find(|told| *told.container == *container);
            let container =
                same.map_or_else(|| container.into(), |told| Arc::clone(&told.container));
            let parent = self.parents.iter().find(|(of, _)| *of == place);
            told.push(Span {
                name: span.name,
                container,
                call: span.call.map(usize::from),
                start: Duration::from_nanos(span.start),
                took: span.took(),
                failed: span.failed,
                parent: parent.map(|(_, parent)| parent.clone()),
            });
        }
        told
    }
}

impl KeptSpan {
    fn took(&self) -> Option<Duration> {
        (self.took != GOES_ON).then(|| Duration::from_nanos(self.took))
    }
}

/// Converts to nanoseconds, up to half a millennium.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(GOES_ON - 1, |nanos| nanos.min(GOES_ON - 1))
}
