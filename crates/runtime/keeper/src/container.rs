//! The keeper's state of a container and of an exec session.

use std::path::PathBuf;
use std::time::Instant;

use orlop_keeper_protocol::{ContainerInfo, ContainerState, ExecInfo, ExitStatus};

use crate::attachment::Input;
use crate::log::Log;
use crate::oom::OomWatch;
use crate::pod::Placed;
use crate::reactor::{Stream, Watch};

/// A container.
///
/// ```text
/// Absent ──► Creating ──► Created ──► Running ──► Exited
///    ▲          │            └──────────────────────▲
///    └──failed──┘
/// ```
///
/// Deletion removes it from any state.
#[derive(Debug, Default)]
pub(crate) struct Container {
    pub(crate) id: String,
    pub(crate) state: ContainerState,
    /// PID of its first process, kept after that has ended.
    pub(crate) pid: i32,
    pub(crate) created_ns: u64,
    pub(crate) started_ns: u64,
    pub(crate) exit: Option<ExitStatus>,
    /// The latest time at which its exit is reported, until it is.
    pub(crate) report_by: Option<Instant>,
    /// Whether the runtime's `start` is running.
    pub(crate) starting: bool,
    /// Its mounts, in the order they were made.
    pub(crate) mounts: Vec<Placed>,
    pub(crate) tty: bool,
    pub(crate) out: Option<Watch>,
    pub(crate) err: Option<Watch>,
    pub(crate) input: Option<Input>,
    pub(crate) stdin_once: bool,
    pub(crate) log: Option<Log>,
    pub(crate) oom_cgroup: PathBuf,
    pub(crate) oom: Option<OomWatch>,
    pub(crate) oom_kills: u64,
    /// Output that the runtime printed on the container's streams while it created the container.
    pub(crate) chatter: Vec<u8>,
}

impl Container {
    pub(crate) fn new(id: String) -> Self {
        Self {
            id,
            ..Self::default()
        }
    }

    /// Returns whether its first process is alive.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(
            self.state,
            ContainerState::Created | ContainerState::Running
        )
    }

    pub(crate) fn output(&mut self, stream: Stream) -> &mut Option<Watch> {
        match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        }
    }

    /// Drops its streams and its log, and keeps its mounts.
    pub(crate) fn reset(&mut self) {
        *self = Self {
            id: std::mem::take(&mut self.id),
            mounts: std::mem::take(&mut self.mounts),
            ..Self::default()
        };
    }

    pub(crate) fn info(&self, attachments: u32) -> ContainerInfo {
        ContainerInfo {
            id: self.id.clone(),
            state: self.state,
            pid: self.pid as u32,
            created_ns: self.created_ns,
            started_ns: self.started_ns,
            exit: self.exit.clone(),
            oom_kills: self.oom_kills,
            log_dropped_bytes: self.log.as_ref().map_or(0, Log::dropped),
            attachments,
        }
    }
}

/// An exec session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) container: String,
    /// PID of its first process, kept after that has ended; 0 while the runtime is running.
    pub(crate) pid: i32,
    /// The session that the runtime created for it; 0 for none.
    pub(crate) session: i32,
    /// The process group of the runtime that was called for it.
    pub(crate) group: i32,
    pub(crate) exit: Option<ExitStatus>,
}

impl Session {
    pub(crate) fn info(&self) -> ExecInfo {
        ExecInfo {
            id: self.id.clone(),
            container: self.container.clone(),
            pid: self.pid as u32,
            exit: self.exit.clone(),
        }
    }
}
