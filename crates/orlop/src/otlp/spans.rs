//! A finished call in OTLP's JSON.

use std::time::Duration;

use orlop_hex::encode as hex;
use orlop_service::timeline::{FinishedCall, Kind, Span, TraceFacts};
use serde_json::{Value, json};

/// `SPAN_KIND_INTERNAL` and `SPAN_KIND_SERVER` of opentelemetry-proto.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;

/// `STATUS_CODE_OK` and `STATUS_CODE_ERROR`.
const OK: u8 = 1;
const ERROR: u8 = 2;

/// The body of an export request.
pub(super) fn request(calls: &[FinishedCall], host: &str) -> Value {
    let spans: Vec<_> = calls.iter().flat_map(spans).collect();
    json!({
        "resourceSpans": [{
            "resource": { "attributes": [
                text("service.name", "orlop"),
                text("service.version", env!("CARGO_PKG_VERSION")),
                text("host.name", host),
            ]},
            "scopeSpans": [{
                "scope": { "name": "orlop", "version": env!("CARGO_PKG_VERSION") },
                "spans": spans,
            }],
        }],
    })
}

fn spans(call: &FinishedCall) -> Vec<Value> {
    let Some((first, steps)) = call.spans.split_first() else {
        return Vec::new();
    };
    let trace = match &first.parent {
        Some(parent) => hex(&parent.trace),
        None => trace_of(&call.facts),
    };
    let own = random_span();
    let parent = first.parent.map(|parent| hex(&parent.span));
    let mut list = vec![span(call, first, &trace, &own, parent.as_deref(), SERVER)];
    list.extend(
        steps
            .iter()
            .map(|step| span(call, step, &trace, &random_span(), Some(&own), INTERNAL)),
    );
    list
}

fn span(
    call: &FinishedCall,
    span: &Span,
    trace: &str,
    own: &str,
    parent: Option<&str>,
    kind: u8,
) -> Value {
    let facts = &call.facts;
    let mut attributes = vec![match facts.kind {
        Kind::Pod => text("k8s.pod.sandbox.id", &facts.id),
        Kind::Pull => text("container.image.name", &facts.name),
    }];
    if facts.kind == Kind::Pod {
        attributes.push(text("k8s.pod", &facts.name));
        attributes.push(text("container.runtime.name", &facts.handler));
    }
    if !span.container.is_empty() {
        attributes.push(text("k8s.container.name", &span.container));
    }
    let at = |offset: Duration| {
        let nanos = i128::from(call.begun_at) + offset.as_nanos() as i128;
        nanos.to_string()
    };
    json!({
        "traceId": trace,
        "spanId": own,
        "parentSpanId": parent.unwrap_or_default(),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": at(span.start),
        "endTimeUnixNano": at(span.start + span.took.unwrap_or_default()),
        "attributes": attributes,
        "status": { "code": if span.failed { ERROR } else { OK } },
    })
}

/// Calls for one pod by a client that traces nothing make one trace, to be found by the
/// beginning of the pod's id.
fn trace_of(facts: &TraceFacts) -> String {
    match facts.kind {
        Kind::Pod if facts.id.len() >= 32 => facts.id.chars().take(32).collect(),
        _ => hex(&rand::random::<[u8; 16]>()),
    }
}

fn random_span() -> String {
    hex(&rand::random::<[u8; 8]>())
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}
