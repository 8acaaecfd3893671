//! Handling of processes that end.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use orlop_keeper_protocol::{ContainerState, Done, ExecExited, ExitStatus, Exited};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, openat, renameat_with, unlinkat};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, kill_process, waitid,
    waitpid,
};

use crate::child::{Process, Stranger};
use crate::clock::now_ns;
use crate::connection::ReplyTo;
use crate::container::Session;
use crate::keeper::{Ending, Keeper};
use crate::log::Log;
use crate::pod::unmount_all;
use crate::sys::process::ended_child;
use crate::tree::{self, Tree};

/// Maximum time that an exit report waits for the log to be written.
const REPORT_LIMIT: Duration = Duration::from_secs(2);

/// Maximum time that a shutdown waits for processes to die.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(10);

/// Limit of ended children whose role is not known yet.
const STRANGERS_MAX: usize = 4096;

/// Limit of finished exec sessions that are kept until a client removes them.
const SESSIONS_MAX: usize = 256;

impl Keeper {
    /// Reaps all children that have ended.
    pub(crate) fn children_ended(&mut self) {
        let _ = rustix::io::read(&self.children, &mut [0; 8]);
        let mut calls = Vec::new();
        while let Some(child) = ended_child() {
            let pid = child.as_raw_pid();
            let session = if self.calls.is_empty() || self.processes.contains_key(&pid) {
                None
            } else {
                // Must be read now: the kernel forgets the session with the zombie.
                tree::session_of(pid)
            };
            let Ok(Some((_, status))) = waitpid(Some(child), WaitOptions::NOHANG) else {
                break;
            };
            let Some(status) = exit_status(status) else {
                continue;
            };
            match self.processes.remove(&pid) {
                Some(Process::Call(key)) => calls.push((key, status)),
                Some(Process::Container(key)) => self.container_ended(key, status),
                Some(Process::Session(id)) => self.session_ended(&id, status),
                Some(Process::Init) => self.pod.init = None,
                None => self.stranger_ended(Stranger {
                    pid,
                    session,
                    status,
                    seen: Instant::now(),
                }),
            }
        }
        // Last, so that the keeper already knows all ended processes that a runtime created.
        for (key, status) in calls {
            self.call_ended(key, &status);
        }
        // A child that ended before a runtime was called was not created by it, and its PID may be reused.
        match self.oldest_call() {
            Some(oldest) => self.strangers.retain(|stranger| stranger.seen >= oldest),
            None => self.strangers.clear(),
        }
    }

    /// Kills a process, and all its descendants, that a runtime created before it failed.
    pub(crate) fn kill_stray(&mut self, pid: i32) {
        self.strangers.retain(|stranger| stranger.pid != pid);
        if is_child(pid) {
            let tree = Tree {
                root: pid,
                session: tree::session_of(pid).unwrap_or(0),
                group: 0,
                alive: true,
                peer: None,
            };
            tree::signal(tree, 9);
        }
    }

    /// Checks if a new process, named by its runtime, is our child, and returns how it ended if it already has. `Err`
    /// if it is not our child.
    pub(crate) fn adopt(&mut self, pid: i32, process: Process) -> Result<Option<Stranger>, ()> {
        let mut strangers = self.strangers.iter();
        if let Some(at) = strangers.position(|stranger| stranger.pid == pid) {
            return Ok(self.strangers.remove(at));
        }
        if !is_child(pid) {
            return Err(());
        }
        self.processes.insert(pid, process);
        Ok(None)
    }

    /// Handles the end of a container: writes the exit record first.
    pub(crate) fn container_ended(&mut self, key: u64, mut status: ExitStatus) {
        self.look_for_oom(key);
        let Some(container) = self.containers.get_mut(&key) else {
            return;
        };
        status.oom = container.oom_kills > 0;
        let id = container.id.clone();
        container.exit = Some(status.clone());
        container.state = ContainerState::Exited;
        container.report_by = Some(Instant::now() + REPORT_LIMIT);
        container.input = None;
        if let Err(error) = self.write_record(&id, &status) {
            eprintln!("orlop-keeper: cannot write the exit record of {id}: {error}");
        }
        self.drain(key);
        self.went(key);
        self.report_if_settled(key);
    }

    /// Reports the exit of a container once its output is in the log.
    pub(crate) fn report_if_settled(&mut self, key: u64) {
        let Some(container) = self.containers.get_mut(&key) else {
            return;
        };
        let settled = container.log.as_ref().is_none_or(Log::is_settled);
        if container.report_by.is_some() && settled && !container.starting {
            self.report(key);
        }
    }

    /// Reports the exits that have waited long enough for a slow disk.
    pub(crate) fn late_reports(&mut self, now: Instant) {
        let late: Vec<u64> = self
            .containers
            .iter()
            .filter(|(_, container)| container.report_by.is_some_and(|by| by <= now))
            .map(|(key, _)| *key)
            .collect();
        for key in late {
            self.report(key);
        }
    }

    fn report(&mut self, key: u64) {
        let Some(container) = self.containers.get_mut(&key) else {
            return;
        };
        container.report_by = None;
        if let Some(status) = container.exit.clone() {
            let container = container.id.clone();
            self.tell(&Exited { container, status });
        }
    }

    pub(crate) fn session_ended(&mut self, id: &str, status: ExitStatus) {
        let Some(session) = self.sessions.iter_mut().find(|session| session.id == id) else {
            return;
        };
        session.exit = Some(status.clone());
        let event = ExecExited {
            exec: session.id.clone(),
            container: session.container.clone(),
            status,
        };
        let finished = |session: &Session| session.exit.is_some();
        if self.sessions.iter().filter(|it| finished(it)).count() > SESSIONS_MAX
            && let Some(oldest) = self.sessions.iter().position(finished)
        {
            self.sessions.remove(oldest);
        }
        self.tell(&event);
    }

    fn stranger_ended(&mut self, stranger: Stranger) {
        if self.calls.is_empty() {
            return;
        }
        if self.strangers.len() == STRANGERS_MAX {
            self.strangers.pop_front();
        }
        self.strangers.push_back(stranger);
    }

    /// Writes an exit record atomically. It never replaces an existing record.
    fn write_record(&self, id: &str, status: &ExitStatus) -> io::Result<()> {
        let temporary = format!(".{id}");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let file = openat(
            &self.pod.exits,
            &temporary,
            flags | OFlags::NOFOLLOW,
            Mode::from_bits_truncate(0o600),
        )?;
        std::fs::File::from(file).write_all(status.to_string().as_bytes())?;
        renameat_with(
            &self.pod.exits,
            &temporary,
            &self.pod.exits,
            id,
            RenameFlags::NOREPLACE,
        )?;
        Ok(())
    }

    /// Removes an exit record, if there is one.
    pub(crate) fn remove_record(&self, id: &str) {
        let _ = unlinkat(&self.pod.exits, id, AtFlags::empty());
    }

    /// Kills all remaining processes, and exits once they are gone.
    pub(crate) fn shut_down(&mut self, reply_to: ReplyTo) {
        for &pid in self.processes.keys() {
            kill(pid);
        }
        for pid in children() {
            kill(pid);
        }
        self.ending = Some(Ending {
            deadline: Instant::now() + SHUTDOWN_LIMIT,
            reply_to,
        });
    }

    /// Returns whether the shutdown is complete; if so, replies to the client that requested it.
    pub(crate) fn has_ended(&mut self) -> bool {
        let Some(ending) = &self.ending else {
            return false;
        };
        if Instant::now() < ending.deadline {
            // Processes orphaned meanwhile have become our children.
            let orphans = children();
            for &pid in &orphans {
                kill(pid);
            }
            if !self.processes.is_empty() || !orphans.is_empty() {
                return false;
            }
        }
        let reply_to = ending.reply_to;
        let left: Vec<u64> = self.containers.keys().copied().collect();
        for key in left {
            if let Some(container) = self.containers.get_mut(&key) {
                unmount_all(&mut container.mounts);
            }
        }
        self.reply(reply_to, Ok(Done {}));
        true
    }
}

fn exit_status(status: WaitStatus) -> Option<ExitStatus> {
    let time_ns = now_ns();
    let (code, signal) = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (code as u32, 0),
        (_, Some(signal)) => (128 + signal as u32, signal as u32),
        _ => return None,
    };
    Some(ExitStatus {
        code,
        signal,
        oom: false,
        time_ns,
    })
}

/// Returns whether a process is our child, alive or zombie.
fn is_child(pid: i32) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Pid::from_raw(pid).is_some_and(|pid| waitid(WaitId::Pid(pid), options).is_ok())
}

/// Kills a child. A child that was not reaped keeps its PID, so this hits no other process.
fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Returns all children, whether the keeper knows their role or not.
fn children() -> Vec<i32> {
    let own = getpid().as_raw_pid();
    #[expect(clippy::disallowed_methods, reason = "the kernel's, one line")]
    let read = || std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
    // Tries twice, because a process that is missed outlives the pod.
    let text = read().or_else(|_| read()).unwrap_or_default();
    text.split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}
