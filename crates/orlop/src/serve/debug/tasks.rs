//! The running work of the daemon, and what it waits for.

use std::time::Duration;

use orlop_cri_server::timeline::Traces;
use orlop_engine::places;
use serde_json::{Value, json};

use super::threads::threads;
use crate::metrics::Backend;
use crate::rpc::Policy;

/// Calls that are listed; further ones are only counted.
const MOST: usize = 512;

/// Parts of the engine's state that describe running work.
const OF_STATE: [&str; 4] = ["under_way", "pulls", "nri", "event_subscribers"];

/// Returns everything that runs now. Blocks on files.
pub(crate) fn tasks(policy: &Policy, backend: Option<&Backend>) -> Value {
    let calls = policy.calls();
    let told: Vec<Value> = calls
        .iter()
        .take(MOST)
        .map(|call| {
            json!({
                "method": call.method.name,
                "request": call.id,
                "client_pid": call.pid,
                "for_ms": millis(call.begun.elapsed()),
            })
        })
        .collect();
    let places = places()
        .into_iter()
        .filter(|place| place.working + place.waiting > 0);
    let places = places.map(|place| {
        json!({
            "name": place.name,
            "threads": place.threads,
            "working": place.working,
            "waiting": place.waiting,
            "owners": place.owners.into_iter().filter(|(_, taken)| *taken > 0).collect::<Vec<_>>(),
        })
    });
    let mut tasks = json!({
        "pid": std::process::id(),
        "calls": told,
        "calls_left_out": calls.len().saturating_sub(MOST),
        "places": places.collect::<Vec<_>>(),
        "threads": threads(),
    });
    let state = match backend {
        Some(Backend::Native(engine)) => {
            tasks["starts"] = starts(engine.traces());
            engine.state()
        }
        Some(Backend::Docker(shim)) => {
            tasks["starts"] = starts(shim.traces());
            Value::Null
        }
        None => Value::Null,
    };
    for part in OF_STATE {
        if let Some(value) = state.get(part) {
            tasks[part] = value.clone();
        }
    }
    tasks
}

/// Returns running pod starts and pulls: since when they run, and their current steps.
fn starts(traces: &Traces) -> Value {
    let mut starts = Vec::new();
    for trace in traces.latest() {
        let spans = trace.spans();
        let open = spans
            .iter()
            .filter(|span| span.call.is_none() && span.took.is_none());
        let calls: Vec<Value> = open
            .map(|call| json!({ "call": call.name, "container": &*call.container }))
            .collect();
        let steps = trace.open_steps();
        if calls.is_empty() && steps.is_empty() {
            continue;
        }
        let steps = steps.into_iter().map(|step| {
            json!({ "step": step.name, "container": step.container, "for_ms": millis(step.since) })
        });
        starts.push(json!({
            "id": trace.facts.id,
            "name": trace.facts.name,
            "runtime_handler": trace.facts.handler,
            "calls": calls,
            "at": steps.collect::<Vec<_>>(),
        }));
    }
    starts.into()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
