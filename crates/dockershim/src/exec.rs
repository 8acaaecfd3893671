//! Commands in containers and their exit.
//!
//! The engine reports the exit of a command in an event; without the event the engine is polled. The engine never
//! kills a command, so the service does.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use orlop_cgroup::Hierarchies;
use orlop_fs::{Membership, children_of};
use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::docker::{Docker, DockerError};
use crate::limits::cgroup_of;

/// The running commands that a caller waits for, and the means to kill them.
pub(crate) struct Execs {
    docker: Arc<Docker>,
    hierarchies: Option<Arc<Hierarchies>>,
    tasks: TaskTracker,
    stop: CancellationToken,
    waiting: Mutex<Waiting>,
}

type Waiting = HashMap<String, watch::Sender<Option<i32>>>;

impl Execs {
    /// Creates the registry. Long-running kills are spawned on `tasks` and abandoned at `stop`.
    pub(crate) fn new(
        docker: Arc<Docker>,
        hierarchies: Option<Arc<Hierarchies>>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        Self {
            docker,
            hierarchies,
            tasks,
            stop,
            waiting: Mutex::default(),
        }
    }

    /// Reports the exit of a command.
    pub(crate) fn ended(&self, exec: &str, code: Option<i32>) {
        if let Some(waiting) = self.lock().get(exec) {
            waiting.send_replace(Some(code.unwrap_or(-1)));
        }
    }

    /// Kills a started command and all its descendants.
    async fn kill(&self, container: &str, exec: &str) -> Killed {
        let found = match self.docker.exec(exec).await {
            Ok(found) if found.running && found.pid > 0 => found,
            Ok(found) if found.running => return Killed::Beginning,
            Ok(found) if found.exit_code.is_none() => return Killed::NotBegun,
            Ok(_) => return Killed::Done,
            Err(error) => {
                tracing::warn!(container, %error, "cannot find an exec process to kill it");
                return Killed::Done;
            }
        };
        let id = container.to_owned();
        let (pid, hierarchies) = (found.pid, self.hierarchies.clone());
        let killing = move || kill_tree(pid, &id, hierarchies.as_ref());
        let _ = orlop_pool::blocking(killing).await;
        Killed::Done
    }

    fn listen(&self, exec: &str) -> watch::Receiver<Option<i32>> {
        let (sender, receiver) = watch::channel(None);
        self.lock().insert(exec.to_owned(), sender);
        receiver
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

/// A running command. Dropping it before its exit kills it.
pub(crate) struct Running {
    execs: Arc<Execs>,
    container: String,
    exec: String,
    events: watch::Receiver<Option<i32>>,
    over: bool,
}

/// First and longest pause between polls.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long to wait for the engine to start a command that it accepted.
const BEGINNING: Duration = Duration::from_mins(2);
/// How long a cancelled start call may still take to reach the engine.
const REACHING: Duration = Duration::from_secs(10);

impl Running {
    /// Registers a command that is about to be started.
    pub(crate) fn new(execs: &Arc<Execs>, container: &str, exec: &str) -> Self {
        Self {
            events: execs.listen(exec),
            execs: Arc::clone(execs),
            container: container.to_owned(),
            exec: exec.to_owned(),
            over: false,
        }
    }

    /// Waits for the exit event of the command. Never returns without one.
    pub(crate) async fn event(&mut self) -> i32 {
        let heard = self.events.wait_for(Option::is_some).await;
        let code = heard.ok().and_then(|code| *code);
        match code {
            Some(code) => code,
            None => std::future::pending().await,
        }
    }

    /// Waits for the command to exit and returns its exit code.
    pub(crate) async fn end(&mut self) -> Result<i32, DockerError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let exec = self.execs.docker.exec(&self.exec).await?;
            if !exec.running
                && let Some(code) = exec.exit_code
            {
                self.over = true;
                return Ok(code);
            }
            tokio::select! {
                code = self.event() => {
                    self.over = true;
                    return Ok(code);
                }
                () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            }
        }
    }

    /// Marks the command as exited after its event.
    pub(crate) fn is_over(&mut self) {
        self.over = true;
    }

    /// Kills the command and all its descendants.
    pub(crate) async fn kill(mut self) {
        self.over = true;
        if self.execs.kill(&self.container, &self.exec).await != Killed::Done {
            self.kill_when_begun();
        }
    }

    /// Kills the command in the background once the engine has started it: an accepted start cannot be cancelled, and
    /// the command must not keep running.
    fn kill_when_begun(&self) {
        let execs = Arc::clone(&self.execs);
        let (container, exec) = (self.container.clone(), self.exec.clone());
        self.execs.tasks.spawn(async move {
            let asked = Instant::now();
            let mut pause = FIRST_PAUSE;
            loop {
                let patience = match execs.kill(&container, &exec).await {
                    Killed::Done => return,
                    Killed::Beginning => BEGINNING,
                    Killed::NotBegun => REACHING,
                };
                if asked.elapsed() >= patience {
                    tracing::debug!(
                        container,
                        "cannot kill an exec process, because it never started"
                    );
                    return;
                }
                tokio::select! {
                    () = execs.stop.cancelled() => return,
                    () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                }
            }
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.execs.lock().remove(&self.exec);
        if !self.over {
            self.kill_when_begun();
        }
    }
}

/// The outcome of killing a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    /// The command is gone, or nothing can be done.
    Done,
    /// The engine is about to start the command.
    Beginning,
    /// The start call has not reached the engine, as far as is known.
    NotBegun,
}

/// How often to look for children that were forked while their parents were being stopped.
const ROUNDS: usize = 16;

/// Kills a process and its descendants. Each process is stopped before its children are listed. A fork in progress can
/// escape that, so remaining processes of the same sessions are killed too, including orphans.
fn kill_tree(root: i32, container: &str, hierarchies: Option<&Arc<Hierarchies>>) {
    // Looked up while the process lives. A container has far fewer processes than the node.
    let cgroup = hierarchies.and_then(|all| cgroup_of(all, root, container));
    let mut held = HashMap::new();
    let mut sessions = HashSet::new();
    let mut next = vec![root];
    while let Some(pid) = next.pop() {
        if held.contains_key(&pid) {
            continue;
        }
        let Some(handle) = hold(pid, container) else {
            continue;
        };
        let _ = pidfd_send_signal(&handle, Signal::STOP);
        next.extend(children_of(pid));
        sessions.extend(session_of(pid));
        held.insert(pid, handle);
    }
    for handle in held.values() {
        let _ = pidfd_send_signal(handle, Signal::KILL);
    }
    // A command that leads no session is in another process's session.
    sessions.retain(|leader| held.contains_key(leader));
    if sessions.is_empty() {
        return;
    }
    for _ in 0..ROUNDS {
        let mut fresh = match &cgroup {
            Some(cgroup) => cgroup.processes_in_one().unwrap_or_default(),
            None => processes(),
        };
        fresh.retain(|pid| {
            !held.contains_key(pid) && session_of(*pid).is_some_and(|it| sessions.contains(&it))
        });
        let before = held.len();
        for pid in fresh {
            if let Some(handle) = hold(pid, container) {
                let _ = pidfd_send_signal(&handle, Signal::KILL);
                held.insert(pid, handle);
            }
        }
        if held.len() == before {
            break;
        }
    }
}

/// Opens a pidfd of a process, if it belongs to the container.
fn hold(pid: i32, container: &str) -> Option<OwnedFd> {
    let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    // The pid may have been reused before the pidfd was opened.
    is_of(pid, container).then_some(handle)
}

fn processes() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Returns the session of a process: the fourth field after its name, which may contain any character.
fn session_of(pid: i32) -> Option<i32> {
    let text = orlop_fs::read_kernel_text(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(3)?.parse().ok()
}

/// Whether a process is in a container's cgroup, whose name contains the container's id.
fn is_of(pid: i32, container: &str) -> bool {
    u32::try_from(pid)
        .ok()
        .and_then(|pid| Membership::of(pid).ok())
        .is_some_and(|membership| membership.paths().any(|path| path.contains(container)))
}
