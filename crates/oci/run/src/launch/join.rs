//! Starts another process in a container.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use orlop_oci_types::{Linux, Process};
use rustix::io::Errno;

use super::filter;
use super::options::Options;
use super::words::{send_listener, send_pidfd, write_pid};
use crate::bundle::check_process;
use crate::cgroup::Entry;
use crate::child::{Joining, run_joining};
use crate::error::{Error, Result, While};
use crate::log::Log;
use crate::mount::name;
use crate::null;
use crate::plan::{ProcessPlan, c_string};
use crate::report::{Channel, Word};
use crate::state::{State, StateDir, Status};
use crate::sys::{
    CloneArgs, Cloned, Side, clone, clone_away, close_now, enter_namespaces, open_pidfd,
    pidfd_signal, poll_in, wait_for,
};
use crate::users;

/// Maximum time for a released process to execute its program: hooks may run before.
const PATIENCE: Duration = Duration::from_secs(10);

/// A process that joined a container.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) pid: i32,
    pub(crate) process: OwnedFd,
}

/// Runs a process in a container whose configuration has `linux`. `cgroups` are cgroups below the container's for the
/// process.
#[expect(clippy::too_many_arguments, reason = "a command has as many")]
pub(crate) fn join(
    log: &Log,
    dir: &StateDir,
    state: &State,
    process: &Process,
    linux: Option<&Linux>,
    options: &Options,
    cgroups: &[String],
    ignore_paused: bool,
) -> Result<Joined> {
    check_process(process).map_err(|error| error.within("process"))?;
    if let Some(linux) = linux {
        users::check_process(process, linux)?;
    }
    let (status, init) = state.look(dir);
    match status {
        Status::Stopped | Status::Creating => {
            return Err(Error::new("cannot exec in a stopped container"));
        }
        Status::Paused if !ignore_paused => {
            return Err(Error::new(
                "cannot exec in a paused container (use --ignore-paused to override)",
            ));
        }
        _ => {}
    }
    let stopped = || Error::new("cannot exec in a stopped container");
    let init = init.ok_or_else(stopped)?;
    let mut warnings = Vec::new();
    let mut steps = ProcessPlan::new(process, &mut warnings)?;
    if let Some(linux) = linux {
        steps.with_linux(linux)?;
    }
    for warning in warnings {
        log.warn(&warning);
    }
    steps.preserve_fds = options.preserve_fds;
    if !options.no_new_keyring {
        steps.keyring = Some(c_string(format!("_ses.{}", state.id), "the container ID")?);
    }
    steps.seccomp = filter::read(&dir.filter());
    if steps.seccomp.is_none() && dir.filter().exists() {
        return Err(Error::new(format!(
            "{} is damaged: the container's seccomp filter cannot be read",
            dir.filter().display()
        )));
    }
    steps.terminal = options.console.terminal(process)?;
    let mut entry = match state.cgroup.entry(cgroups, state.pid) {
        // A rootless process that may not enter stays in the caller's cgroup.
        Err(_) if state.rootless && cgroups.is_empty() => Entry::default(),
        entry => entry?,
    };
    let pid_namespace = libc::CLONE_NEWPID as u64;
    let has_users = state.namespaces & libc::CLONE_NEWUSER as u64 != 0;
    // A caller who is not root may enter the other namespaces only as a user of the container.
    let by_child = has_users && !users::is_root() && state.namespaces & pid_namespace != 0;
    let root = if state.pivoted {
        None
    } else {
        let root = format!("/proc/{}/root", state.pid);
        Some(name(std::path::Path::new(&root)).doing(|| root)?)
    };
    if state.namespaces & pid_namespace != 0 && !by_child {
        // Only children of the entering process are in the namespace, and this process has only one child.
        enter_namespaces(init.as_fd(), pid_namespace)
            .doing(|| "failed to setns into pid namespace".to_owned())?;
    }
    if by_child {
        wait_for_program(state.pid, status, &init)?;
    }
    let mut joining = Joining {
        init,
        namespaces: if by_child {
            state.namespaces
        } else {
            state.namespaces & !pid_namespace
        },
        by_child,
        has_users,
        root,
        tasks: std::mem::take(&mut entry.tasks),
        process: steps,
    };
    let (ours, theirs) =
        Channel::pair(log.is_debug()).doing(|| "cannot create a socket pair".to_owned())?;
    log.debug(|| {
        format!(
            "=> nsexec container setup: clone3 to join process {}",
            state.pid
        )
    });
    let args = CloneArgs {
        namespaces: 0,
        cgroup: entry.into.as_ref().map(AsFd::as_fd),
        sibling: false,
        here: true,
    };
    let side = match (clone(&args), &entry.ferry) {
        (Err(Errno::ACCESS), Some(ferry)) => match clone_away(&args, |pid| ferry.bring(pid)) {
            Ok(brought) => Ok(brought?),
            Err(errno) => Err(errno),
        },
        (Err(Errno::ACCESS | Errno::PERM), _) if state.rootless && cgroups.is_empty() => {
            clone(&CloneArgs {
                cgroup: None,
                ..args
            })
        }
        (side, _) => side,
    };
    let mut child = match side.doing(|| "clone3".to_owned())? {
        Side::Child => {
            close_now(ours.fd());
            run_joining(&mut joining, &theirs)
        }
        Side::Parent(child) => child,
    };
    drop(theirs);
    let shared = state.rdt.as_ref().map_or(Ok(()), |rdt| rdt.add(child.pid));
    let done = shared.and_then(|()| serve(log, &ours, process, options, state, &mut child));
    if done.is_err() {
        let _ = pidfd_signal(child.pidfd.as_fd(), libc::SIGKILL);
        let _ = wait_for(child.pid);
    }
    done.map(|()| Joined {
        pid: child.pid,
        process: child.pidfd,
    })
}

/// Waits until the container's process has executed its program: before that it holds resources of the host, and the
/// kernel lets only root enter its namespaces.
fn wait_for_program(pid: i32, status: Status, init: &OwnedFd) -> Result<()> {
    let path = format!("/proc/{pid}/fd");
    let begun = Instant::now();
    loop {
        // Files of a process that may not be inspected belong to the host's root.
        if std::fs::metadata(&path).is_ok_and(|look| look.uid() != 0) {
            return Ok(());
        }
        if status == Status::Created {
            return Err(Error::new(
                "only root can exec in a container that is not started; start the container first",
            ));
        }
        if poll_in(init.as_fd(), 2) {
            return Err(Error::new("cannot exec in a stopped container"));
        }
        if begun.elapsed() > PATIENCE {
            return Err(Error::new(
                "timed out waiting for the container process to execute its program",
            ));
        }
    }
}

/// Serves the child until it has executed its program, which closes the channel.
fn serve(
    log: &Log,
    channel: &Channel,
    process: &Process,
    options: &Options,
    state: &State,
    child: &mut Cloned,
) -> Result<()> {
    loop {
        match channel
            .hear()
            .doing(|| "cannot read from the process".to_owned())?
        {
            Some(Word::Did(step, _)) => {
                log.debug(|| super::trace::of_process(step, Some(process)));
            }
            Some(Word::Made(pid)) => {
                let pidfd = open_pidfd(pid).doing(|| "cannot open the process".to_owned())?;
                let _ = wait_for(child.pid);
                *child = Cloned { pid, pidfd };
            }
            Some(Word::Failed(fault)) => {
                return Err(super::explain::of_process(fault, Some(process)));
            }
            Some(Word::Listener(listener)) => {
                send_listener(state, Status::Running, child.pid, &listener)?;
                channel
                    .go_on()
                    .doing(|| "the process has exited".to_owned())?;
            }
            Some(Word::Null) => {
                let lent = null::lend();
                lent.map_or_else(|| channel.go_on(), |lent| channel.give(lent.as_fd()))
                    .doing(|| "the process has exited".to_owned())?;
            }
            Some(_) => return Err(Error::new("the process sent an unexpected message")),
            None => break,
        }
    }
    log.debug(|| format!("setns_init: about to exec: process {}", child.pid));
    if let Some(socket) = &options.pidfd_socket {
        send_pidfd(socket, child.pidfd.as_fd())?;
    }
    if let Some(path) = &options.pid_file {
        write_pid(path, child.pid)?;
    }
    Ok(())
}
