//! Events for containerd, in order, also while containerd is not running.

use std::env;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::sleep;
use std::time::Duration;

use orlop_containerd_api::events::{
    TaskCheckpointed, TaskCreate, TaskDelete, TaskExecAdded, TaskExecStarted, TaskExit, TaskIo,
    TaskOom, TaskPaused, TaskResumed, TaskStart,
};
use orlop_containerd_api::services::events::ForwardRequest;
use orlop_containerd_api::types::Envelope;
use orlop_containerd_api::{Any, Message, Timestamp};
use orlop_ttrpc::Client;

use crate::error::Result;
use crate::program::background;
use crate::stdio::Streams;
use crate::tasks::{Exit, now};

const SERVICE: &str = "containerd.services.events.ttrpc.v1.Events";
/// The environment variable with containerd's event address, which every shim has.
const ADDRESS: &str = "TTRPC_ADDRESS";
/// Maximum number of queued events while containerd is away. Later events are dropped; containerd queries the states
/// when it is back.
const WAITING: usize = 2048;
/// How often an event is sent if containerd does not answer, and the pause before each retry.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(5);

/// Sends events to containerd.
#[derive(Debug)]
pub(crate) struct Publisher {
    queue: SyncSender<Job>,
    namespace: String,
}

enum Job {
    Tell(Vec<u8>),
    /// Signals that all earlier events are sent or dropped.
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

    /// Queues an event.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        let (topic, event) = event.packed();
        let request = ForwardRequest {
            envelope: Some(Envelope {
                timestamp: Some(Timestamp::from_nanos(now())),
                namespace: self.namespace.clone(),
                topic: topic.into(),
                event: Some(event),
            }),
        };
        let request = request.encode_to_vec();
        if self.queue.try_send(Job::Tell(request)).is_err() {
            crate::log::log(&format!(
                "dropped the event {topic}: the event queue for containerd is full"
            ));
        }
    }

    /// Waits until all events are sent or dropped.
    pub(crate) fn flush(&self, limit: Duration) {
        let (done, told) = sync_channel(1);
        if self.queue.try_send(Job::Flush(done)).is_ok() {
            let _ = told.recv_timeout(limit);
        }
    }
}

impl Event<'_> {
    /// Returns the topic and the message.
    fn packed(&self) -> (&'static str, Any) {
        match *self {
            Self::Create {
                id,
                bundle,
                streams,
                checkpoint,
                pid,
            } => {
                let Streams {
                    stdin,
                    stdout,
                    stderr,
                    terminal,
                } = streams.clone();
                let event = TaskCreate {
                    container_id: id.into(),
                    bundle: bundle.into(),
                    io: Some(TaskIo {
                        stdin,
                        stdout,
                        stderr,
                        terminal,
                    }),
                    checkpoint: checkpoint.into(),
                    pid,
                };
                ("/tasks/create", Any::pack(&event))
            }
            Self::Start { id, pid } => {
                let container_id = id.into();
                ("/tasks/start", Any::pack(&TaskStart { container_id, pid }))
            }
            Self::Exit {
                id,
                process,
                pid,
                exit,
            } => {
                let event = TaskExit {
                    container_id: id.into(),
                    id: process.into(),
                    pid,
                    exit_status: exit.code,
                    exited_at: Some(exit.time()),
                };
                ("/tasks/exit", Any::pack(&event))
            }
            Self::Delete { id, pid, exit } => {
                let event = TaskDelete {
                    container_id: id.into(),
                    pid,
                    exit_status: exit.code,
                    exited_at: Some(exit.time()),
                };
                ("/tasks/delete", Any::pack(&event))
            }
            Self::Oom { id } => {
                let container_id = id.into();
                ("/tasks/oom", Any::pack(&TaskOom { container_id }))
            }
            Self::ExecAdded { id, exec } => {
                let event = TaskExecAdded {
                    container_id: id.into(),
                    exec_id: exec.into(),
                };
                ("/tasks/exec-added", Any::pack(&event))
            }
            Self::ExecStarted { id, exec, pid } => {
                let event = TaskExecStarted {
                    container_id: id.into(),
                    exec_id: exec.into(),
                    pid,
                };
                ("/tasks/exec-started", Any::pack(&event))
            }
            Self::Paused { id } => {
                let container_id = id.into();
                ("/tasks/paused", Any::pack(&TaskPaused { container_id }))
            }
            Self::Resumed { id } => {
                let container_id = id.into();
                ("/tasks/resumed", Any::pack(&TaskResumed { container_id }))
            }
            Self::Checkpointed { id, path } => {
                let event = TaskCheckpointed {
                    container_id: id.into(),
                    checkpoint: path.into(),
                };
                ("/tasks/checkpointed", Any::pack(&event))
            }
        }
    }
}

fn forward(address: &str, jobs: &Receiver<Job>) {
    let socket = address.strip_prefix("unix://").unwrap_or(address);
    let mut client = None;
    while let Ok(job) = jobs.recv() {
        match job {
            // There is no receiver if a person runs the shim by hand.
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
            // containerd would reject a rejected event again.
            Ok(_) | Err(orlop_ttrpc::Error::Refused { .. }) => {
                *client = Some(connected);
                return;
            }
            Err(_) => {}
        }
    }
    crate::log::log("dropped an event: containerd does not respond");
}

#[cfg(test)]
mod tests {
    use orlop_containerd_api::events::TaskExit;

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
        let (topic, any) = event.packed();
        assert_eq!(
            (topic, &*any.type_url),
            ("/tasks/exit", "containerd.events.TaskExit")
        );
        let event: TaskExit = any.unpack().unwrap();
        assert_eq!((&*event.container_id, &*event.id), ("c", "e"));
        assert_eq!((event.pid, event.exit_status), (7, 137));
        let at = event.exited_at.unwrap();
        assert_eq!((at.seconds, at.nanos), (2, 3));
    }
}
