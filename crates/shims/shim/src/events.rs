//! Events of shims. Each event is a call from the shim to this process, or to the controller that started it.

use std::os::unix::net::UnixStream;

use orlop_containerd_api::Message;
use orlop_containerd_api::events::TaskOom;
use orlop_containerd_api::services::events::{ForwardRequest, SubscribeRequest};
use orlop_containerd_api::types::Envelope;

use crate::endpoint::Endpoint;
use crate::error::Result;
use crate::rpc::Stream;
use crate::state_dir::{PodDir, StateDir, TaskDir};

/// containerd's topic of out-of-memory events.
const WANT_OF_MEMORY: &str = "/tasks/oom";

/// Receives a shim's events on a connection; only out-of-memory events are used.
pub(crate) fn hear(state: &StateDir, pod: &PodDir, mut socket: UnixStream) {
    orlop_ttrpc::answer_all(&mut socket, |request| {
        if let Ok(ForwardRequest {
            envelope: Some(envelope),
        }) = ForwardRequest::decode(request)
        {
            note(state, pod, &envelope);
        }
    });
}

/// Receives the events of a controller's shims until the stream ends. Without an event service, out-of-memory kills
/// are not detected.
pub(crate) fn subscribe(state: &StateDir, pod: &PodDir, controller: &Endpoint) -> Result<()> {
    let service = "containerd.services.events.v1.Events";
    let mut told = Stream::open(controller, service, "Subscribe")?;
    let filter = format!("topic==\"{WANT_OF_MEMORY}\"");
    told.send(&SubscribeRequest {
        filters: vec![filter],
    })?;
    told.close()?;
    while let Some(envelope) = told.receive(None)? {
        note(state, pod, &envelope);
    }
    Ok(())
}

fn note(state: &StateDir, pod: &PodDir, envelope: &Envelope) {
    let Some(id) = out_of_memory(envelope) else {
        return;
    };
    // The container may belong to another pod: the sender of the event is close to untrusted code.
    let task = state.task(&id).ok();
    let of_pod = |task: &TaskDir| task.pod(state).is_ok_and(|named| named.id == pod.id);
    if let Some(task) = task.filter(of_pod) {
        task.note_out_of_memory();
    }
}

/// Returns the container of a `/tasks/oom` event.
fn out_of_memory(envelope: &Envelope) -> Option<String> {
    if envelope.topic != WANT_OF_MEMORY {
        return None;
    }
    let event = TaskOom::decode(&*envelope.event.as_ref()?.value).ok()?;
    Some(event.container_id)
}

#[cfg(test)]
mod tests {
    use orlop_containerd_api::events::TaskOom;
    use orlop_containerd_api::types::Envelope;
    use orlop_containerd_api::{Any, Message, Timestamp};

    use super::out_of_memory;

    fn told(topic: &str) -> Envelope {
        let event = TaskOom {
            container_id: "c1".into(),
        };
        Envelope {
            timestamp: Some(Timestamp::default()),
            namespace: "orlop".into(),
            topic: topic.into(),
            event: Some(Any::pack(&event)),
        }
    }

    #[test]
    fn only_a_want_of_memory_matters() {
        assert_eq!(out_of_memory(&told("/tasks/oom")).as_deref(), Some("c1"));
        assert_eq!(out_of_memory(&told("/tasks/exit")), None);
    }

    #[test]
    fn fuzzed_events_do_not_break_the_reader() {
        orlop_testkit::Fuzz::new()
            .example(told("/tasks/oom").encode_to_vec())
            .run(|input| {
                if let Ok(envelope) = Envelope::decode(input) {
                    drop(out_of_memory(&envelope));
                }
            });
    }
}
