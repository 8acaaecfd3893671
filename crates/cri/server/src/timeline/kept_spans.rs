//! The spans of a trace as they are kept: small, and in two pieces of memory that the next trace
//! takes over. Hundreds of traces are kept between what comes and goes; each piece of them that is
//! allocated anew would hold a page of its own, and another one the next time.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::metrics::Outcome;
use super::origin::TraceParent;
use super::span::Span;

/// Spans of one trace; what a pod with hundreds of containers has beyond is counted only.
pub(super) const MAX_SPANS: usize = 256;

/// Spans that there is room for from the beginning: a pod's start with one container.
const USUAL_SPANS: usize = 24;

/// A trace that had more gives the room for them back before it is used again.
const MANY_SPANS: usize = 2 * USUAL_SPANS;

/// The same for bytes of names.
const MANY_BYTES: usize = 256;

/// Where a span is.
pub(super) type Place = u16;

/// The spans of one trace.
#[derive(Debug)]
pub(super) struct KeptSpans {
    spans: Vec<KeptSpan>,
    /// Of containers, one after the other.
    names: String,
    /// The spans of clients that say which they are.
    parents: Vec<(Place, TraceParent)>,
    left_out: u64,
}

#[derive(Debug, Clone)]
struct KeptSpan {
    name: &'static str,
    /// Where the container's name begins and ends.
    container: (u32, u32),
    /// Nanoseconds after the trace's beginning.
    start: u64,
    /// Nanoseconds; none while it goes on.
    took: u64,
    call: Option<Place>,
    failed: bool,
}

/// What `took` says of a span that goes on.
const GOES_ON: u64 = u64::MAX;

impl KeptSpans {
    /// None, and room for the usual ones.
    pub(super) fn new() -> Self {
        Self {
            spans: Vec::with_capacity(USUAL_SPANS),
            names: String::new(),
            parents: Vec::new(),
            left_out: 0,
        }
    }

    /// None, in the memory that there is.
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

    /// A call and its steps.
    pub(super) fn of_call(&self, call: Place) -> Vec<Span> {
        self.told(|place, span| place == call || span.call == Some(call))
    }

    /// The client's span that a call belongs to.
    pub(super) fn parent_of(&self, call: Place) -> Option<&TraceParent> {
        let parent = self.parents.iter().find(|(of, _)| *of == call);
        parent.map(|(_, parent)| parent)
    }

    /// When each call began, and how long it took; none while it goes on.
    pub(super) fn calls(&self) -> impl Iterator<Item = (Duration, Option<Duration>)> {
        let calls = self.spans.iter().filter(|span| span.call.is_none());
        calls.map(|call| (Duration::from_nanos(call.start), call.took()))
    }

    /// The latest call that goes on for this container, or for the pod.
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

    /// Adds a step that is over, with its start and how long it took.
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

    /// Where a container's name is: once for all spans that are for it.
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

/// Half a millennium at most.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(GOES_ON - 1, |nanos| nanos.min(GOES_ON - 1))
}
