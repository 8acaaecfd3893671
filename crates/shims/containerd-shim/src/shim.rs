//! The server's state: the pod's tasks and keeper, and the handling of the keeper's events.

use std::sync::Arc;

use orlop_cgroup::{Cgroup, CgroupPath, Hierarchies};
use orlop_containerd_api::Message;
use orlop_keeper_protocol::{Event as KeeperEvent, ExitStatus, Kill, Setup, VERSION};
use parking_lot::Mutex;

use crate::caller::Caller;
use crate::error::{Result, unknown};
use crate::events::{Event, Publisher};
use crate::keeper::{Keeper, LIMIT, News};
use crate::log::log;
use crate::place::Place;
use crate::pod::Pod;
use crate::program::background;
use crate::tasks::{Exit, Phase, Task, Tasks};

/// The exit code of a process that was killed because its keeper died.
const KILLED: u32 = 137;

/// The server of a pod.
#[derive(Debug)]
pub(crate) struct Shim {
    pub(crate) namespace: String,
    /// The pod's id.
    pub(crate) id: String,
    pub(crate) place: Place,
    pub(crate) publisher: Publisher,
    pub(crate) tasks: Mutex<Tasks>,
    pub(crate) pod: Mutex<Pod>,
    keeper: Mutex<Option<Arc<Keeper>>>,
    pub(crate) hierarchies: Arc<Hierarchies>,
}

impl Shim {
    pub(crate) fn new(namespace: &str, id: &str, place: Place) -> Result<Arc<Self>> {
        let hierarchies = Hierarchies::detect()
            .map_err(|error| unknown(format!("reading the cgroup hierarchies: {error}")))?;
        Ok(Arc::new(Self {
            namespace: namespace.to_owned(),
            id: id.to_owned(),
            place,
            publisher: Publisher::start(namespace)?,
            tasks: Mutex::default(),
            pod: Mutex::default(),
            keeper: Mutex::default(),
            hierarchies: Arc::new(hierarchies),
        }))
    }

    /// Returns the keeper.
    pub(crate) fn keeper(&self) -> Result<Arc<Keeper>> {
        let keeper = self.keeper.lock().clone();
        keeper.ok_or_else(|| unknown("the pod has no keeper"))
    }

    /// Returns the keeper, or starts one with the host's namespaces for containers with namespaces of their own.
    pub(crate) fn any_keeper(self: &Arc<Self>) -> Result<Arc<Keeper>> {
        self.keeper_of(|| Ok(Setup::default()))
            .map(|(keeper, _)| keeper)
    }

    /// Returns the keeper, or starts one; also returns whether it is new.
    pub(crate) fn keeper_of(
        self: &Arc<Self>,
        setup: impl FnOnce() -> Result<Setup>,
    ) -> Result<(Arc<Keeper>, bool)> {
        let mut held = self.keeper.lock();
        if let Some(keeper) = &*held {
            return Ok((Arc::clone(keeper), false));
        }
        let setup = Setup {
            version: VERSION,
            pod_id: self.id.clone(),
            dir: self.place.keeper(),
            ..setup()?
        };
        let shim = Arc::clone(self);
        let keeper = Keeper::spawn(&setup, move |news| shim.hear(news))?;
        *held = Some(Arc::clone(&keeper));
        Ok((keeper, true))
    }

    /// Takes the keeper, which is about to end.
    pub(crate) fn take_keeper(&self) -> Option<Arc<Keeper>> {
        self.keeper.lock().take()
    }

    fn hear(self: &Arc<Self>, news: News) {
        match news {
            News::Event(KeeperEvent::Exited(it)) => {
                self.ended(&it.container, "", exit_of(&it.status));
            }
            News::Event(KeeperEvent::ExecExited(it)) => {
                let exec = it.exec.strip_prefix(&it.container);
                let exec = exec.and_then(|exec| exec.strip_prefix('/'));
                if let Some(exec) = exec {
                    self.ended(&it.container, exec, exit_of(&it.status));
                }
            }
            News::Event(KeeperEvent::OomKilled(it)) => {
                self.publisher.tell(&Event::Oom { id: &it.container });
            }
            News::Event(KeeperEvent::LogDropped(_)) => {}
            News::End => self.orphaned(),
        }
    }

    /// Handles the exit of a process. Its event may have to wait: for the process's start event, and for the exits of
    /// the container's commands.
    pub(crate) fn ended(self: &Arc<Self>, id: &str, exec: &str, exit: Exit) {
        let mut tasks = self.tasks.lock();
        let Ok(process) = tasks.process(id, exec) else {
            return;
        };
        if process.exit.is_some() || process.held.is_some() {
            return;
        }
        process.held = Some(exit);
        if let (true, Ok(task)) = (exec.is_empty(), tasks.get(id))
            && !task.own_processes
            && let Some(runtime) = task.runtime.clone()
        {
            // Without a PID namespace of its own, other processes of the container may still run.
            let (shim, id, bundle) = (Arc::clone(self), id.to_owned(), task.bundle.clone());
            let _ = background(move || {
                let request = Kill {
                    container: id.clone(),
                    signal: libc::SIGKILL as u32,
                    call: Some(runtime.kill_all(&id, &bundle, libc::SIGKILL as u32)),
                };
                if let Ok(keeper) = shim.keeper() {
                    let _ = keeper.call("killing a container's processes", &request, &[], LIMIT);
                }
            });
        }
        drop(tasks);
        self.tell_ends(id);
    }

    /// Returns the response if a process has exited; otherwise the caller gets it on exit.
    pub(crate) fn wait(&self, id: &str, exec: &str, caller: &Caller) -> Result<Option<Vec<u8>>> {
        let mut tasks = self.tasks.lock();
        let process = tasks.process(id, exec)?;
        let exit = process.exit;
        if exit.is_none() {
            process.waiting.push(caller.clone());
        }
        Ok(exit.map(|exit| exit.wait_response().encode_to_vec()))
    }

    /// Sends the exit events of a container's processes that are due.
    pub(crate) fn tell_ends(&self, id: &str) {
        let mut waiting = Vec::new();
        let mut tasks = self.tasks.lock();
        let Ok(task) = tasks.get(id) else {
            return;
        };
        let mut told = Vec::new();
        for (name, command) in &mut task.commands {
            if !command.process.starting && command.process.held.is_some() {
                told.push(name.clone());
            }
        }
        if task.process.held.is_some() && task.may_end() {
            told.push(String::new());
        }
        for name in told {
            let Ok(process) = task.process(&name) else {
                continue;
            };
            let Some(exit) = process.held.take() else {
                continue;
            };
            process.exit = Some(exit);
            process.phase = Phase::Stopped;
            let of = if name.is_empty() { id } else { &name };
            // Sent under the lock, so that events keep the order of the changes.
            self.publisher.tell(&Event::Exit {
                id,
                process: of,
                pid: process.pid,
                exit,
            });
            let callers = process.waiting.drain(..).map(|caller| (caller, exit));
            waiting.extend(callers);
        }
        drop(tasks);
        for (caller, exit) in waiting {
            caller.answer(&Ok(exit.wait_response().encode_to_vec()));
        }
    }

    /// Handles the death of the keeper: nothing else would see the exit of its children.
    fn orphaned(self: &Arc<Self>) {
        if self.take_keeper().is_none() {
            return;
        }
        log("the pod's keeper has exited; killing its processes");
        let mut alive = Vec::new();
        for (id, task) in &mut self.tasks.lock().0 {
            for (name, command) in &mut task.commands {
                if command.process.is_alive() {
                    alive.push((id.clone(), name.clone(), None));
                }
            }
            if task.process.is_alive() {
                alive.push((id.clone(), String::new(), task.runtime.clone()));
            }
        }
        for (id, exec, runtime) in alive {
            if let Some(runtime) = runtime
                && let Err(status) = runtime.delete_directly(&id)
            {
                log(&format!("deleting container {id}: {}", status.message));
            }
            self.ended(&id, &exec, Exit::now(KILLED));
        }
    }

    /// Returns the cgroup at this path of a specification.
    pub(crate) fn cgroup(&self, path: &str, systemd: bool) -> Option<Cgroup> {
        let path = if systemd {
            let mut parts = path.splitn(3, ':');
            let (slice, prefix, name) = (parts.next()?, parts.next()?, parts.next()?);
            let scope = if prefix.is_empty() {
                format!("{name}.scope")
            } else {
                format!("{prefix}-{name}.scope")
            };
            CgroupPath::of_slice(slice).ok()?.child(&scope).ok()?
        } else {
            CgroupPath::parse(path).ok()?
        };
        (!path.is_root()).then(|| Cgroup::new(Arc::clone(&self.hierarchies), path))
    }

    /// Removes a container, or the pod, from the state.
    pub(crate) fn forget(&self, id: &str) -> Option<Task> {
        self.place.forget(id);
        self.tasks.lock().0.remove(id)
    }
}

fn exit_of(status: &ExitStatus) -> Exit {
    Exit {
        code: status.code,
        at_ns: status.time_ns,
    }
}
