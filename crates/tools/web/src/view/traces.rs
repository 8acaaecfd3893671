//! Traces of pod starts and pulls.

use orlop_cri_api::client::Connection;
use orlop_cri_api::inspection::{Call, ListTracesRequest, Trace, TraceKind};
use serde_json::{Value, json};

use crate::asked::{Told, own};
use crate::bounded::{MOST, cut};
use crate::live::moment;
use crate::query::Query;

/// Limit and default number of traces.
const MOST_TRACES: u32 = 1000;
const FEW: u32 = 50;

/// Returns the latest or slowest traces, of one pod or of all.
pub(crate) async fn traces(cri: &Connection, query: &Query) -> Told {
    let request = ListTracesRequest {
        pod_sandbox_id: query.get("pod").unwrap_or_default().to_owned(),
        limit: query.number("limit").unwrap_or(FEW).clamp(1, MOST_TRACES),
        slowest_first: query.get("slowest").is_some_and(|it| it != "0"),
        kinds: Vec::new(),
    };
    let mut client = cri.orlop_inspection();
    let answer = own(client.list_traces(request)).await?;
    let traces = answer.traces.iter().take(MOST_TRACES as usize);
    Ok(json!({ "traces": traces.map(trace).collect::<Vec<_>>() }))
}

fn trace(trace: &Trace) -> Value {
    let kind = match trace.kind() {
        TraceKind::Pod => "pod",
        TraceKind::Pull => "pull",
    };
    json!({
        "kind": kind,
        "id": cut(&trace.id),
        "name": cut(&trace.name),
        "handler": cut(&trace.runtime_handler),
        "started": moment(trace.started_at),
        "waited_us": trace.waited_us,
        "left_out": trace.left_out,
        "calls": trace.calls.iter().take(MOST).map(call).collect::<Vec<_>>(),
    })
}

fn call(call: &Call) -> Value {
    let steps = call.steps.iter().take(MOST).map(|step| {
        json!({
            "name": cut(&step.name),
            "start_us": step.start_us,
            "took_us": step.took_us,
            "failed": step.failed,
        })
    });
    json!({
        "name": cut(&call.name),
        "container": cut(&call.container),
        "start_us": call.start_us,
        "took_us": call.took_us,
        "failed": call.failed,
        "running": call.running,
        "steps": steps.collect::<Vec<_>>(),
    })
}
