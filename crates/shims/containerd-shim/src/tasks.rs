//! State of the pod's containers, of their commands, and of the pod itself.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use orlop_cgroup::Cgroup;
use orlop_containerd_api::Timestamp;
use orlop_containerd_api::task::{DeleteResponse, WaitResponse};
use orlop_containerd_api::task_types;
use orlop_ttrpc::{Status, code};

use crate::caller::Caller;
use crate::error::{Result, not_found};
use crate::logger::Logger;
use crate::runtime::Runtime;
use crate::stdio::Streams;
use crate::terminal::Terminal;

/// The exit of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: u32,
    /// The time in nanoseconds since the epoch.
    pub(crate) at_ns: u64,
}

impl Exit {
    pub(crate) fn now(code: u32) -> Self {
        Self { code, at_ns: now() }
    }

    pub(crate) fn time(self) -> Timestamp {
        Timestamp::from_nanos(self.at_ns)
    }

    /// The response to `Wait`. `WaitSandboxResponse` has the same fields.
    pub(crate) fn wait_response(self) -> WaitResponse {
        WaitResponse {
            exit_status: self.code,
            exited_at: Some(self.time()),
        }
    }

    pub(crate) fn delete_response(self, pid: u32) -> DeleteResponse {
        DeleteResponse {
            pid,
            exit_status: self.code,
            exited_at: Some(self.time()),
        }
    }
}

/// Returns the current time in nanoseconds since the epoch.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// The state of a process.
///
/// ```text
/// Making ──► Created ──► Running ◄──► Paused
///               └───────────┴────────────┴──► Stopped
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Making,
    Created,
    Running,
    Paused,
    Stopped,
}

impl Phase {
    pub(crate) fn status(self) -> task_types::Status {
        match self {
            Self::Making => task_types::Status::Unknown,
            Self::Created => task_types::Status::Created,
            Self::Running => task_types::Status::Running,
            Self::Stopped => task_types::Status::Stopped,
            Self::Paused => task_types::Status::Paused,
        }
    }
}

/// A container's first process, or a command in it.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) phase: Phase,
    pub(crate) streams: Streams,
    pub(crate) exit: Option<Exit>,
    /// Whether its start is in progress; the exit event is sent after it.
    pub(crate) starting: bool,
    /// Its exit, while the event has to wait.
    pub(crate) held: Option<Exit>,
    pub(crate) waiting: Vec<Caller>,
    /// Our own end of its standard input.
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) terminal: Option<Terminal>,
    pub(crate) logger: Option<Logger>,
}

impl Process {
    pub(crate) fn of(streams: Streams) -> Self {
        Self {
            streams,
            ..Self::default()
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.exit.is_none() && self.held.is_none() && self.phase != Phase::Making
    }
}

/// A container, or the pod.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) bundle: PathBuf,
    pub(crate) process: Process,
    pub(crate) commands: BTreeMap<String, Command>,
    /// The runtime that created it; `None` for the pod, which the keeper creates.
    pub(crate) runtime: Option<Runtime>,
    /// The number of mounts of its root filesystem.
    pub(crate) mounts: usize,
    pub(crate) cgroup: Option<Cgroup>,
    /// Whether its processes end with the first one.
    pub(crate) own_processes: bool,
    /// The checkpoint that it starts from.
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) created_ns: u64,
}

/// The location of a checkpoint, and the working directory of the restore.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) image: PathBuf,
    pub(crate) work: PathBuf,
}

/// A prepared or running command in a container.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) process: Process,
    /// The directory of its description and pid file.
    pub(crate) dir: PathBuf,
}

impl Task {
    /// Creates a task whose container is being created.
    pub(crate) fn making(bundle: PathBuf, streams: Streams) -> Self {
        Self {
            bundle,
            process: Process::of(streams),
            commands: BTreeMap::new(),
            runtime: None,
            mounts: 0,
            cgroup: None,
            own_processes: true,
            checkpoint: None,
            created_ns: now(),
        }
    }

    /// Returns its own process, or the command of this name.
    pub(crate) fn process(&mut self, exec: &str) -> Result<&mut Process> {
        if exec.is_empty() {
            return Ok(&mut self.process);
        }
        let command = self
            .commands
            .get_mut(exec)
            .map(|command| &mut command.process);
        command.ok_or_else(|| not_found(format!("process does not exist {exec}")))
    }

    /// Whether its exit event may be sent: after the exits of all started commands. A command that failed to start may
    /// never report an exit.
    pub(crate) fn may_end(&self) -> bool {
        let mut commands = self.commands.values().map(|command| &command.process);
        !self.process.starting
            && !commands.any(|it| it.starting || it.is_alive() && it.phase != Phase::Created)
    }
}

/// All tasks by name.
#[derive(Debug, Default)]
pub(crate) struct Tasks(pub(crate) BTreeMap<String, Task>);

impl Tasks {
    pub(crate) fn get(&mut self, id: &str) -> Result<&mut Task> {
        let task = self.0.get_mut(id);
        task.ok_or_else(|| not_found(format!("container {id} not created: not found")))
    }

    pub(crate) fn process(&mut self, id: &str, exec: &str) -> Result<&mut Process> {
        self.get(id)?.process(exec)
    }

    /// Adds a task; fails if the name is in use.
    pub(crate) fn add(&mut self, id: &str, task: Task) -> Result<()> {
        if self.0.contains_key(id) {
            let message = format!("container {id}: already exists");
            return Err(Status::new(code::ALREADY_EXISTS, message));
        }
        self.0.insert(id.to_owned(), task);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_ends_after_the_commands_that_were_started_alone() {
        let mut task = Task::making(PathBuf::new(), Streams::default());
        task.process.phase = Phase::Running;
        let command = |phase, starting| Command {
            process: Process {
                phase,
                starting,
                ..Process::default()
            },
            dir: PathBuf::new(),
        };
        for (phase, starting, may_end) in [
            (Phase::Created, false, true),
            (Phase::Created, true, false),
            (Phase::Running, false, false),
        ] {
            let it = command(phase, starting);
            task.commands = [("command".to_owned(), it)].into();
            assert_eq!(task.may_end(), may_end, "{phase:?}, {starting}");
        }
    }
}
