//! Commands in containers, and their ends.
//!
//! The engine says in an event that a command has ended; where that is not heard it is asked. It
//! never ends a command by itself, so that what has to end is killed here.

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

/// Commands whose end somebody waits for, and what it takes to kill them.
pub(crate) struct Execs {
    docker: Arc<Docker>,
    hierarchies: Option<Arc<Hierarchies>>,
    tasks: TaskTracker,
    stop: CancellationToken,
    waiting: Mutex<Waiting>,
}

type Waiting = HashMap<String, watch::Sender<Option<i32>>>;

impl Execs {
    /// Kills that take a while are among the `tasks`, and given up at the `stop`.
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

    /// A command has ended.
    pub(crate) fn ended(&self, exec: &str, code: Option<i32>) {
        if let Some(waiting) = self.lock().get(exec) {
            waiting.send_replace(Some(code.unwrap_or(-1)));
        }
    }

    /// Kills a command and all that it has started, if it has begun.
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

/// A command that runs. Dropping it before its end kills it.
pub(crate) struct Running {
    execs: Arc<Execs>,
    container: String,
    exec: String,
    events: watch::Receiver<Option<i32>>,
    over: bool,
}

/// Pauses between questions, from and to.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// An engine that has not started a command by now never will.
const BEGINNING: Duration = Duration::from_mins(2);
/// A call to start one that was cut off has reached the engine by now, or never will.
const REACHING: Duration = Duration::from_secs(10);

impl Running {
    /// For a command that is about to be started.
    pub(crate) fn new(execs: &Arc<Execs>, container: &str, exec: &str) -> Self {
        Self {
            events: execs.listen(exec),
            execs: Arc::clone(execs),
            container: container.to_owned(),
            exec: exec.to_owned(),
            over: false,
        }
    }

    /// Waits for the event that says that the command has ended. Never ends otherwise.
    pub(crate) async fn event(&mut self) -> i32 {
        let heard = self.events.wait_for(Option::is_some).await;
        let code = heard.ok().and_then(|code| *code);
        match code {
            Some(code) => code,
            None => std::future::pending().await,
        }
    }

    /// Waits for the command's end and answers its exit code.
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

    /// The command has ended, as is known from its event.
    pub(crate) fn is_over(&mut self) {
        self.over = true;
    }

    /// Kills the command and all that it has started.
    pub(crate) async fn kill(mut self) {
        self.over = true;
        if self.execs.kill(&self.container, &self.exec).await != Killed::Done {
            self.kill_when_begun();
        }
    }

    /// The engine takes a command before it starts it, and cannot be told to leave it: nobody waits
    /// for that, but it must not run on.
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

/// What became of a command that is to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    /// It is no more, or nothing can be done.
    Done,
    /// The engine is about to start it.
    Beginning,
    /// The engine was not asked to start it, or not heard to be.
    NotBegun,
}

/// How many times those are looked for who were born while their parents were being stopped.
const ROUNDS: usize = 16;

/// Kills a process and its descendants. Each is stopped before its children are looked for. That
/// does not hold up a fork that is under way: whoever is left of their sessions is killed then,
/// and orphans that have not left them with it.
fn kill_tree(root: i32, container: &str, hierarchies: Option<&Arc<Hierarchies>>) {
    // To be found while it lives. Those of the container are far fewer than those of the node.
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
    // A command that leads none is in a session of others.
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

/// Takes hold of a process, if it is one of the container.
fn hold(pid: i32, container: &str) -> Option<OwnedFd> {
    let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    // The number may be another process's by now, which the handle would then mean.
    is_of(pid, container).then_some(handle)
}

fn processes() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The session that a process is in: the fourth field after its name, which may contain anything.
fn session_of(pid: i32) -> Option<i32> {
    let text = orlop_fs::read_kernel_text(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(3)?.parse().ok()
}

/// Whether a process is in a container's cgroup, which the engine names by the container's id.
fn is_of(pid: i32, container: &str) -> bool {
    u32::try_from(pid)
        .ok()
        .and_then(|pid| Membership::of(pid).ok())
        .is_some_and(|membership| membership.paths().any(|path| path.contains(container)))
}
