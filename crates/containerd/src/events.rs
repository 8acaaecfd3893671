//! What containerd is told by itself: events, in their order, whether or not it is there just now.

use std::env;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::sleep;
use std::time::Duration;

use orlop_ttrpc::{Client, Writer};

use crate::Result;
use crate::program::background;
use crate::stdio::Streams;
use crate::tasks::{Exit, now, timestamp};

const SERVICE: &str = "containerd.services.events.ttrpc.v1.Events";
/// Where containerd hears them; the environment of every shim has it.
const ADDRESS: &str = "TTRPC_ADDRESS";
/// How many may wait for a containerd that is away; what comes then is lost, and it asks for states when
/// it is back.
const WAITING: usize = 2048;
/// How often an event is told to one who does not hear, and the pause before each try but the first.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(5);

/// Tells events.
#[derive(Debug)]
pub(crate) struct Publisher {
    queue: SyncSender<Job>,
    namespace: String,
}

enum Job {
    Tell(Vec<u8>),
    /// All before it are told, or given up.
    Flush(SyncSender<()>),
}

/// An event of a task.
pub(crate) enum Event<'a> {
    Create {
        id: &'a str,
        bundle: &'a str,
        streams: &'a Streams,
        checkpoint: &'a str,
        pid: u32,
    },
    Start {
        id: &'a str,
        pid: u32,
    },
    Exit {
        id: &'a str,
        process: &'a str,
        pid: u32,
        exit: Exit,
    },
    Delete {
        id: &'a str,
        pid: u32,
        exit: Exit,
    },
    Oom {
        id: &'a str,
    },
    ExecAdded {
        id: &'a str,
        exec: &'a str,
    },
    ExecStarted {
        id: &'a str,
        exec: &'a str,
        pid: u32,
    },
    Paused {
        id: &'a str,
    },
    Resumed {
        id: &'a str,
    },
    Checkpointed {
        id: &'a str,
        path: &'a str,
    },
}

impl Publisher {
    pub(crate) fn start(namespace: &str) -> Result<Self> {
        let (queue, jobs) = sync_channel(WAITING);
        let address = env::var(ADDRESS).unwrap_or_default();
        background(move || forward(&address, &jobs))?;
        Ok(Self {
            queue,
            namespace: namespace.to_owned(),
        })
    }

    /// Tells an event after all that were told before.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        let (topic, kind, message) = event.encode();
        let any = Writer::default()
            .text(1, &format!("containerd.events.{kind}"))
            .bytes(2, &message.done());
        let envelope = Writer::default()
            .message(1, &timestamp(now()))
            .text(2, &self.namespace)
            .text(3, topic)
            .message(4, &any.done());
        let request = Writer::default().message(1, &envelope.done()).done();
        if self.queue.try_send(Job::Tell(request)).is_err() {
            crate::serve::log(&format!(
                "dropped the event {topic}: the event queue for containerd is full"
            ));
        }
    }

    /// Waits until all is told, or given up.
    pub(crate) fn flush(&self, limit: Duration) {
        let (done, told) = sync_channel(1);
        if self.queue.try_send(Job::Flush(done)).is_ok() {
            let _ = told.recv_timeout(limit);
        }
    }
}

impl Event<'_> {
    fn encode(&self) -> (&'static str, &'static str, Writer) {
        let of = |id: &str| Writer::default().text(1, id);
        match *self {
            Self::Create {
                id,
                bundle,
                streams,
                checkpoint,
                pid,
            } => {
                let io = Writer::default()
                    .text(1, &streams.stdin)
                    .text(2, &streams.stdout)
                    .text(3, &streams.stderr)
                    .number(4, streams.terminal.into());
                let event = of(id)
                    .text(2, bundle)
                    .message(4, &io.done())
                    .text(5, checkpoint)
                    .number(6, pid.into());
                ("/tasks/create", "TaskCreate", event)
            }
            Self::Start { id, pid } => ("/tasks/start", "TaskStart", of(id).number(2, pid.into())),
            Self::Exit {
                id,
                process,
                pid,
                exit,
            } => {
                let event = of(id)
                    .text(2, process)
                    .number(3, pid.into())
                    .number(4, exit.code.into())
                    .message(5, &timestamp(exit.at_ns));
                ("/tasks/exit", "TaskExit", event)
            }
            Self::Delete { id, pid, exit } => {
                let event = of(id)
                    .number(2, pid.into())
                    .number(3, exit.code.into())
                    .message(4, &timestamp(exit.at_ns));
                ("/tasks/delete", "TaskDelete", event)
            }
            Self::Oom { id } => ("/tasks/oom", "TaskOOM", of(id)),
            Self::ExecAdded { id, exec } => {
                ("/tasks/exec-added", "TaskExecAdded", of(id).text(2, exec))
            }
            Self::ExecStarted { id, exec, pid } => {
                let event = of(id).text(2, exec).number(3, pid.into());
                ("/tasks/exec-started", "TaskExecStarted", event)
            }
            Self::Paused { id } => ("/tasks/paused", "TaskPaused", of(id)),
            Self::Resumed { id } => ("/tasks/resumed", "TaskResumed", of(id)),
            Self::Checkpointed { id, path } => (
                "/tasks/checkpointed",
                "TaskCheckpointed",
                of(id).text(2, path),
            ),
        }
    }
}

fn forward(address: &str, jobs: &Receiver<Job>) {
    let socket = address.strip_prefix("unix://").unwrap_or(address);
    let mut client = None;
    while let Ok(job) = jobs.recv() {
        match job {
            // Nobody to tell: who calls a shim by hand.
            Job::Tell(_) if socket.is_empty() => {}
            Job::Tell(event) => tell(socket, &mut client, &event),
            Job::Flush(done) => drop(done),
        }
    }
}

fn tell(socket: &str, client: &mut Option<Client>, event: &[u8]) {
    for attempt in 0..TRIES {
        sleep(PAUSE * attempt);
        let connected = match client.take() {
            Some(client) => Ok(client),
            None => Client::connect(socket.as_ref()),
        };
        let Ok(mut connected) = connected else {
            continue;
        };
        match connected.call(SERVICE, "Forward", event, Some(LIMIT)) {
            // What it refuses it would refuse again.
            Ok(_) | Err(orlop_ttrpc::Error::Refused { .. }) => {
                *client = Some(connected);
                return;
            }
            Err(_) => {}
        }
    }
    crate::serve::log("dropped an event: containerd does not respond");
}

#[cfg(test)]
mod tests {
    use orlop_ttrpc::{number, text};

    use super::Event;
    use crate::tasks::Exit;

    #[test]
    fn events_have_containerds_fields() {
        let exit = Exit {
            code: 137,
            at_ns: 2_000_000_003,
        };
        let event = Event::Exit {
            id: "c",
            process: "e",
            pid: 7,
            exit,
        };
        let (topic, kind, message) = event.encode();
        assert_eq!((topic, kind), ("/tasks/exit", "TaskExit"));
        let message = message.done();
        assert_eq!(
            (text(&message, 1), text(&message, 2)),
            ("c".into(), "e".into())
        );
        assert_eq!((number(&message, 3), number(&message, 4)), (7, 137));
        let at = orlop_ttrpc::field(&message, 5).unwrap();
        assert_eq!((number(at.as_bytes(), 1), number(at.as_bytes(), 2)), (2, 3));
    }
}
