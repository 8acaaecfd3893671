//! Serves the requests of a child until it is ready.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{SeekFrom, ftruncate, seek};
use rustix::io::pread;
use rustix::process::Resource;
use serde_json::{Value, json};

use super::options::Options;
use super::prepare::Prepared;
use super::{copy_up, explain, trace, within};
use crate::bundle::Bundle;
use crate::cgroup;
use crate::error::{Error, Result, While};
use crate::hooks;
use crate::log::Log;
use crate::netdev::Devices;
use crate::plan::{HookSteps, write_maps};
use crate::report::{Channel, Fault, Step, Word};
use crate::state::{State, StateDir, Status, Written, process};
use crate::sys::{Cloned, open_pidfd, set_rlimit_of, wait_for};

/// Serves a child until it is ready, then records it and lets it wait for its start.
#[expect(
    clippy::too_many_arguments,
    reason = "it is the second half of one function"
)]
pub(super) fn serve(
    log: &Log,
    bundle: &Bundle,
    options: &Options,
    dir: &StateDir,
    prepared: &mut Prepared,
    channel: &Channel,
    child: &mut Cloned,
    mut between: bool,
) -> Result<()> {
    let spec = &bundle.spec;
    if prepared.plan.waits && !between {
        log.debug(|| format!("mapping user and group IDs of process {}", child.pid));
        give_users(bundle, prepared, child.pid)?;
        go_on(channel)?;
    }
    // A failure to write now, perhaps because the process has failed, is reported below.
    let early = (!between).then(|| Notes::write(options, dir, prepared, child.pid).ok());
    loop {
        match channel
            .hear()
            .doing(|| "cannot read from the container process".to_owned())?
        {
            Some(Word::Did(step, index)) => log.debug(|| trace::of_init(step, index, spec)),
            Some(Word::Made(pid)) => {
                let pidfd =
                    open_pidfd(pid).doing(|| "cannot open the container process".to_owned())?;
                let _ = wait_for(child.pid);
                *child = Cloned { pid, pidfd };
                between = false;
                if prepared.plan.waits {
                    give_users(bundle, prepared, child.pid)?;
                    go_on(channel)?;
                }
            }
            Some(Word::Namespaced) => {
                note(&mut prepared.state, child.pid)?;
                let wanted = spec.linux.as_ref().map(|linux| &linux.net_devices);
                if let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) {
                    prepared.devices = Some(Devices::of(wanted, child.pid)?);
                }
                // As in the specification and runc: the status is "creating" until the container can be started.
                let document = prepared.state.document(Status::Creating);
                for steps in [&prepared.plan.create_hooks, &prepared.plan.start_hooks] {
                    tell_state(steps, &document)?;
                }
                if let Some(ours) = &spec.hooks {
                    let (first, second) = (ours.prestart.len(), ours.create_runtime.len());
                    log.debug(|| {
                        format!("running {first} prestart and {second} createRuntime hooks")
                    });
                    hooks::run(&ours.prestart, "prestart", &document)?;
                    hooks::run(&ours.create_runtime, "createRuntime", &document)?;
                }
                go_on(channel)?;
            }
            Some(Word::CopyUp(to, from)) => {
                copy_up::copy(from.as_fd(), to.as_fd()).doing(|| "tmpcopyup".to_owned())?;
                go_on(channel)?;
            }
            Some(Word::Timed) => {
                // The child may not have the right to open its own file.
                if let Some(offsets) = &prepared.plan.namespaces.new_time {
                    let path = format!("/proc/{}/timens_offsets", child.pid);
                    std::fs::write(&path, offsets)
                        .doing(|| format!("linux.timeOffsets: writing {path}"))?;
                }
                go_on(channel)?;
            }
            Some(Word::Source(index)) => {
                let tree = within::source(prepared.plan.source(index)?, child.pidfd.as_fd())?;
                let tree =
                    tree.map_err(|(step, errno)| explain(Fault { step, index, errno }, spec))?;
                channel
                    .give(tree.as_fd())
                    .doing(|| "the container process has exited".to_owned())?;
            }
            Some(Word::Listener(listener)) => {
                note(&mut prepared.state, child.pid)?;
                send_listener(&prepared.state, Status::Creating, child.pid, &listener)?;
                go_on(channel)?;
            }
            Some(Word::Failed(fault)) => {
                let error = explain(fault, spec);
                return Err(match said_by_hooks(&prepared.plan.create_hooks) {
                    Some(said) if fault.step == Step::CreateHook => {
                        Error::new(format!("{error}, output: {said}"))
                    }
                    _ => error,
                });
            }
            Some(Word::Null) => {
                return Err(Error::new(
                    "the container process sent an unexpected request for /dev/null",
                ));
            }
            Some(Word::Ready) => break,
            None if between => {
                return Err(Error::new(
                    "the intermediate process exited before it created the container process",
                ));
            }
            None => {
                return Err(Error::new(
                    "the container process exited before it was ready",
                ));
            }
        }
    }
    log.debug(|| {
        format!(
            "init: closing the pipe to signal completion: process {}",
            child.pid
        )
    });
    let notes = match early.flatten() {
        Some(early) => early,
        None => Notes::write(options, dir, prepared, child.pid)?,
    };
    cgroup::release(prepared.holder.take())?;
    if let Some(rdt) = &prepared.state.rdt {
        rdt.add(child.pid)?;
    }
    if let Some(socket) = &options.pidfd_socket {
        send_pidfd(socket, child.pidfd.as_fd())?;
    }
    notes.keep()?;
    go_on(channel)
}

/// Files about the container's process: written early, and published when it is ready.
struct Notes {
    pid: Option<(PathBuf, Written)>,
    state: Written,
}

impl Notes {
    fn write(options: &Options, dir: &StateDir, prepared: &mut Prepared, pid: i32) -> Result<Self> {
        note(&mut prepared.state, pid)?;
        let pid_file = match &options.pid_file {
            Some(path) => Some((path.clone(), draft_pid(path, pid)?)),
            None => None,
        };
        Ok(Self {
            pid: pid_file,
            state: dir.draft(&prepared.state)?,
        })
    }

    fn keep(self) -> Result<()> {
        if let Some((path, pid)) = self.pid {
            pid.keep_instead(&path)?;
        }
        self.state.keep()
    }
}

fn go_on(channel: &Channel) -> Result<()> {
    channel
        .go_on()
        .doing(|| "the container process has exited".to_owned())
}

/// Writes the ID maps of a new user namespace, and sets limits that its processes may not raise.
fn give_users(bundle: &Bundle, prepared: &Prepared, pid: i32) -> Result<()> {
    let Some(linux) = &bundle.spec.linux else {
        return Ok(());
    };
    write_maps(pid, &linux.uid_mappings, &linux.gid_mappings)?;
    let process = &prepared.plan.process;
    for (index, (resource, soft, hard)) in process.limits_at_once() {
        set_rlimit_of(pid, resource, soft, hard)
            .doing(|| format!("process.rlimits[{index}]: error setting rlimit"))?;
    }
    if let Some((index, _, hard)) = process.files
        && rustix::process::getrlimit(Resource::Nofile)
            .maximum
            .is_some_and(|own| own < hard)
    {
        // The process itself lowers it.
        set_rlimit_of(pid, Resource::Nofile, hard, hard)
            .doing(|| format!("process.rlimits[{index}]: error setting rlimit"))?;
    }
    if let Some(score) = &process.oom_score_adj {
        let path = format!("/proc/{pid}/oom_score_adj");
        std::fs::write(&path, score.to_bytes())
            .doing(|| format!("process.oomScoreAdj: write {path}"))?;
    }
    Ok(())
}

fn note(state: &mut State, pid: i32) -> Result<()> {
    let started = process(pid).filter(|(_, alive)| *alive);
    let Some((start, _)) = started else {
        return Err(Error::new("the container process has exited"));
    };
    (state.pid, state.start_time) = (pid, start);
    Ok(())
}

fn tell_state(steps: &HookSteps, document: &Value) -> Result<()> {
    let Some(file) = &steps.state else {
        return Ok(());
    };
    let told = || "cannot write the container state for hooks".to_owned();
    ftruncate(file, 0).doing(told)?;
    seek(file, SeekFrom::Start(0)).doing(told)?;
    let mut file = std::fs::File::from(file.try_clone().doing(told)?);
    file.write_all(document.to_string().as_bytes()).doing(told)
}

/// Returns the first part of the hooks' output.
fn said_by_hooks(steps: &HookSteps) -> Option<String> {
    let mut said = [0; hooks::SAID];
    let length = pread(steps.output.as_ref()?, &mut said, 0).ok()?;
    let said = String::from_utf8_lossy(&said[..length]);
    (!said.trim().is_empty()).then(|| said.trim().to_owned())
}

/// Writes a PID atomically.
pub(crate) fn write_pid(path: &Path, pid: i32) -> Result<()> {
    draft_pid(path, pid)?.keep_instead(path)
}

/// Returns a PID file that is written but not published yet.
pub(super) fn draft_pid(path: &Path, pid: i32) -> Result<Written> {
    Written::new(path.to_owned(), 0o644, pid.to_string().as_bytes(), |path| {
        format!("--pid-file {}", path.display())
    })
}

/// Sends the descriptor for seccomp notifications to the agent.
pub(super) fn send_listener(
    state: &State,
    status: Status,
    pid: i32,
    listener: &OwnedFd,
) -> Result<()> {
    let Some(agent) = &state.listener else {
        return Err(Error::new(
            "linux.seccomp.listenerPath: the path is empty, but the profile uses SCMP_ACT_NOTIFY",
        ));
    };
    let document = json!({
        "ociVersion": state.oci_version,
        "fds": ["seccompFd"],
        "pid": pid,
        "metadata": agent.metadata,
        "state": state.document(status),
    });
    let told = || format!("linux.seccomp.listenerPath {}", agent.path.display());
    let socket = UnixStream::connect(&agent.path)
        .doing(|| format!("{}: failed to connect with seccomp agent", told()))?;
    let text = document.to_string();
    crate::sys::send_with(socket.as_fd(), text.as_bytes(), listener.as_fd()).doing(told)
}

pub(super) fn send_pidfd(socket: &Path, process: BorrowedFd<'_>) -> Result<()> {
    let told = || format!("--pidfd-socket {}", socket.display());
    let stream = UnixStream::connect(socket).doing(told)?;
    crate::sys::send_with(stream.as_fd(), b"pidfd", process).doing(told)
}
