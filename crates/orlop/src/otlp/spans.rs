//! Conversion of a finished call to an OTLP span.

use std::time::Duration;

use orlop_cri_server::timeline::{self, FinishedCall, Kind};

use super::message::{
    AnyValue, ExportRequest, KeyValue, Resource, ResourceSpans, Scope, ScopeSpans, Span, SpanKind,
    Status, StatusCode,
};

/// Flag: the trace is sampled.
const SAMPLED: u32 = 0x1;
/// Flags: it is known whether the parent span is remote, and it is.
const KNOWN_REMOTE: u32 = 0x100;
const REMOTE: u32 = 0x200;

/// Creates the request for these calls.
pub(super) fn request(calls: &[FinishedCall], host: &str) -> ExportRequest {
    let attributes = vec![
        text("service.name", "orlop"),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("host.name", host),
    ];
    let scope = Scope {
        name: "orlop".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    ExportRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes }),
            scope_spans: vec![ScopeSpans {
                scope: Some(scope),
                spans: calls.iter().flat_map(spans).collect(),
            }],
        }],
    }
}

fn spans(call: &FinishedCall) -> Vec<Span> {
    let Some((first, steps)) = call.spans.split_first() else {
        return Vec::new();
    };
    let own = new_id();
    let mut told = span(call, first, own, SpanKind::Server);
    let state = first
        .parent
        .as_ref()
        .and_then(|parent| parent.state.clone());
    let state = state.as_deref().unwrap_or_default();
    if let Some(parent) = &first.parent {
        told.parent_span_id = parent.span.to_vec();
        told.flags |= REMOTE;
    }
    state.clone_into(&mut told.trace_state);
    let steps = steps.iter().map(|step| Span {
        parent_span_id: own.to_vec(),
        trace_state: state.to_owned(),
        ..span(call, step, new_id(), SpanKind::Internal)
    });
    std::iter::once(told).chain(steps).collect()
}

fn span(call: &FinishedCall, span: &timeline::Span, id: [u8; 8], kind: SpanKind) -> Span {
    let facts = &call.facts;
    let mut attributes = Vec::new();
    match facts.kind {
        Kind::Pod => {
            attributes.push(text("k8s.pod.sandbox.id", &facts.id));
            attributes.push(text("k8s.pod", &facts.name));
            attributes.push(text("container.runtime.name", &facts.handler));
        }
        Kind::Pull => attributes.push(text("container.image.name", &facts.name)),
    }
    if !span.container.is_empty() {
        attributes.push(text("k8s.container.name", &span.container));
    }
    let at = |offset: Duration| {
        let nanos = i128::from(call.begun_at).saturating_add(offset.as_nanos() as i128);
        u64::try_from(nanos.max(0)).unwrap_or(u64::MAX)
    };
    let code = if span.failed {
        StatusCode::Error
    } else {
        StatusCode::Ok
    };
    Span {
        trace_id: call.trace.to_vec(),
        span_id: id.to_vec(),
        trace_state: String::new(),
        parent_span_id: Vec::new(),
        name: span.name.to_owned(),
        kind: kind.into(),
        start_time_unix_nano: at(span.start),
        end_time_unix_nano: at(span.start.saturating_add(span.took.unwrap_or_default())),
        attributes,
        status: Some(Status { code: code.into() }),
        flags: SAMPLED | KNOWN_REMOTE,
    }
}

/// Returns a random ID other than zero, which means "none".
fn new_id() -> [u8; 8] {
    rand::random::<u64>().max(1).to_be_bytes()
}

fn text(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            string_value: Some(value.to_owned()),
        }),
    }
}
