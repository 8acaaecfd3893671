//! What shims tell by themselves: each event is a call that they make, here, or to the controller that has
//! started them.

use std::os::unix::net::UnixStream;

use crate::error::Result;
use crate::proto::{Writer, field};
use crate::rpc::Stream;
use crate::state_dir::{PodDir, StateDir, TaskDir};
use crate::task::Endpoint;

/// A topic of containerd's events.
const WANT_OF_MEMORY: &str = "/tasks/oom";

/// Hears all that a shim tells on a connection; most of it is known otherwise.
pub(crate) fn hear(state: &StateDir, pod: &PodDir, mut socket: UnixStream) {
    orlop_ttrpc::answer_all(&mut socket, |request| {
        // A request's third field is its message, whose first is the envelope.
        let envelope = message(request, 3).and_then(|forward| message(forward, 1));
        note(state, pod, envelope.unwrap_or_default());
    });
}

/// Hears what a controller is told by its shims, as long as it tells; those that have no such service know
/// nothing of want of memory.
pub(crate) fn subscribe(state: &StateDir, pod: &PodDir, controller: &Endpoint) -> Result<()> {
    let service = "containerd.services.events.v1.Events";
    let mut told = Stream::open(controller, service, "Subscribe")?;
    let filter = format!("topic==\"{WANT_OF_MEMORY}\"");
    told.send(&Writer::default().text(1, &filter).done())?;
    told.close()?;
    while let Some(envelope) = told.receive(None)? {
        note(state, pod, &envelope);
    }
    Ok(())
}

fn note(state: &StateDir, pod: &PodDir, envelope: &[u8]) {
    let Some(id) = out_of_memory(envelope) else {
        return;
    };
    // It may be none of this pod's: whoever tells it stands close to what runs there.
    let task = state.task(&id).ok();
    let of_pod = |task: &TaskDir| task.pod(state).is_ok_and(|named| named.id == pod.id);
    if let Some(task) = task.filter(of_pod) {
        task.note_out_of_memory();
    }
}

/// The container of `/tasks/oom`. An envelope's third field is the topic, its fourth the event, of which the
/// second is a `TaskOOM`.
fn out_of_memory(envelope: &[u8]) -> Option<String> {
    if message(envelope, 3)? != WANT_OF_MEMORY.as_bytes() {
        return None;
    }
    let event = message(message(envelope, 4)?, 2)?;
    let id = message(event, 1)?;
    Some(String::from_utf8_lossy(id).into_owned())
}

fn message(of: &[u8], number: u32) -> Option<&[u8]> {
    field(of, number).map(|field| field.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::out_of_memory;
    use crate::proto::Writer;

    fn told(topic: &str) -> Vec<u8> {
        let event = Writer::default().text(1, "c1").done();
        let event = Writer::default()
            .text(1, "containerd.events.TaskOOM")
            .message(2, &event);
        let envelope = Writer::default()
            .message(1, &[])
            .text(2, "orlop")
            .text(3, topic)
            .message(4, &event.done());
        envelope.done()
    }

    #[test]
    fn only_a_want_of_memory_matters() {
        assert_eq!(out_of_memory(&told("/tasks/oom")).as_deref(), Some("c1"));
        assert_eq!(out_of_memory(&told("/tasks/exit")), None);
    }

    #[test]
    fn fuzzed_events_do_not_break_the_reader() {
        orlop_testkit::Fuzz::new()
            .example(told("/tasks/oom"))
            .run(|input| drop(out_of_memory(input)));
    }
}
