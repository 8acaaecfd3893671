//! The response of `ListTraces`: the latest pod starts and pulls with their steps.

use std::cmp::Reverse;
use std::time::Duration;

use orlop_cri_api::inspection::{
    Call, ListTracesRequest, ListTracesResponse, Step, Trace as ListedTrace, TraceKind,
};

use super::facts::Kind;
use super::span::Span;
use super::trace::Trace;
use super::traces::Traces;

/// Builds the response to a `ListTraces` request.
pub fn answer(traces: &Traces, request: &ListTracesRequest) -> ListTracesResponse {
    let mut traces = traces.latest();
    let kinds: Vec<TraceKind> = request.kinds().collect();
    traces.retain(|trace| {
        let pod = &request.pod_sandbox_id;
        let wanted = kinds.is_empty() || kinds.contains(&kind(trace));
        wanted && (pod.is_empty() || is_of(trace, pod))
    });
    if request.slowest_first {
        traces.sort_by_cached_key(|trace| Reverse(trace.waited()));
    }
    if request.limit > 0 {
        traces.truncate(request.limit as usize);
    }
    ListTracesResponse {
        traces: traces.iter().map(|trace| listed(trace)).collect(),
    }
}

fn is_of(trace: &Trace, pod: &str) -> bool {
    trace.facts.kind == Kind::Pod && trace.facts.id.starts_with(pod)
}

fn kind(trace: &Trace) -> TraceKind {
    match trace.facts.kind {
        Kind::Pod => TraceKind::Pod,
        Kind::Pull => TraceKind::Pull,
    }
}

fn listed(trace: &Trace) -> ListedTrace {
    let facts = &trace.facts;
    let spans = trace.spans();
    ListedTrace {
        kind: kind(trace).into(),
        id: facts.id.clone(),
        name: facts.name.clone(),
        runtime_handler: facts.handler.clone(),
        started_at: facts.started_at,
        waited_us: micros(trace.waited()),
        calls: spans
            .iter()
            .enumerate()
            .filter(|(_, span)| span.call.is_none())
            .map(|(index, span)| listed_call(index, span, &spans))
            .collect(),
        left_out: trace.left_out(),
    }
}

fn listed_call(index: usize, call: &Span, spans: &[Span]) -> Call {
    let steps = spans.iter().filter(|span| span.call == Some(index));
    Call {
        name: call.name.to_owned(),
        container: call.container.to_string(),
        start_us: micros(call.start),
        took_us: call.took.map_or(0, micros),
        failed: call.failed,
        running: call.took.is_none(),
        steps: steps
            .map(|step| Step {
                name: step.name.to_owned(),
                start_us: micros(step.start),
                took_us: step.took.map_or(0, micros),
                failed: step.failed,
            })
            .collect(),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
