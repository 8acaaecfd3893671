//! What shims tell by themselves: each event is a call that they make.

use std::os::unix::net::UnixStream;

use crate::proto::field;
use crate::state_dir::{PodDir, StateDir};

/// Hears all that a shim tells on a connection; most of it is known otherwise.
pub(crate) fn hear(state: &StateDir, pod: &PodDir, mut socket: UnixStream) {
    orlop_ttrpc::answer_all(&mut socket, |request| {
        if let Some(id) = out_of_memory(request) {
            // It may be none of this pod's: whoever tells it stands close to what runs there.
            let task = state.task(&id).ok();
            let of_pod = |task: &crate::state_dir::TaskDir| {
                task.pod(state).is_ok_and(|named| named.id == pod.id)
            };
            if let Some(task) = task.filter(of_pod) {
                task.note_out_of_memory();
            }
        }
    });
}

/// The container of `/tasks/oom`. A request's third field is its message, whose first is the envelope, of
/// which the third is the topic and the fourth the event; its second is a `TaskOOM`.
fn out_of_memory(request: &[u8]) -> Option<String> {
    let envelope = message(message(request, 3)?, 1)?;
    if message(envelope, 3)? != b"/tasks/oom" {
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
        let forward = Writer::default().message(1, &envelope.done());
        Writer::default()
            .text(1, "containerd.services.events.ttrpc.v1.Events")
            .text(2, "Forward")
            .message(3, &forward.done())
            .done()
    }

    #[test]
    fn only_a_want_of_memory_matters() {
        assert_eq!(out_of_memory(&told("/tasks/oom")).as_deref(), Some("c1"));
        assert_eq!(out_of_memory(&told("/tasks/exit")), None);
        orlop_testkit::Fuzz::new()
            .example(told("/tasks/oom"))
            .run(|input| drop(out_of_memory(input)));
    }
}
