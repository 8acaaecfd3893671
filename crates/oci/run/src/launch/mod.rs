//! Creates containers: the parent's side.

mod console;
mod copy_up;
mod explain;
pub(crate) mod filter;
mod join;
mod options;
mod prepare;
mod trace;
mod within;
mod words;

use std::os::fd::{AsFd, OwnedFd};

pub(crate) use console::Console;
pub(crate) use explain::explain;
pub(crate) use join::join;
pub(crate) use options::Options;
pub(crate) use words::write_pid;

use rustix::io::Errno;

use crate::args::Globals;
use crate::bundle::Bundle;
use crate::cgroup::Ferry;
use crate::child;
use crate::error::{Error, Result, While, meaning};
use crate::log::Log;
use crate::plan::{NEW_TIME, Plan};
use crate::protect::may_be_looked_into;
use crate::report::Channel;
use crate::state::{State, StateDir};
use crate::sys::{
    CloneArgs, Cloned, Side, clone, clone_away, close_now, enter_namespaces, pidfd_signal,
    raise_own_limit_of_files, wait_for,
};

/// A container that was created and waits for its start, or was restored.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) dir: StateDir,
    pub(crate) state: State,
    pub(crate) process: OwnedFd,
}

/// Creates a container from a bundle. If that fails, nothing is left of it.
pub(crate) fn create(
    globals: &Globals,
    log: &Log,
    id: &str,
    bundle: &Bundle,
    options: &Options,
) -> Result<Created> {
    in_new_directory(globals, id, |dir| {
        make(globals, log, id, bundle, options, dir)
    })
}

/// Creates or restores a container in a new directory, which is removed if that fails.
pub(crate) fn in_new_directory(
    globals: &Globals,
    id: &str,
    make: impl FnOnce(&StateDir) -> Result<(State, OwnedFd)>,
) -> Result<Created> {
    let dir = StateDir::make(globals, id)?;
    let made = make(&dir);
    if made.is_err() {
        let _ = dir.remove();
    }
    let (state, process) = made?;
    Ok(Created {
        dir,
        state,
        process,
    })
}

fn make(
    globals: &Globals,
    log: &Log,
    id: &str,
    bundle: &Bundle,
    options: &Options,
    dir: &StateDir,
) -> Result<(State, OwnedFd)> {
    // Each mount may need a descriptor, and two if it is ID-mapped.
    let files = raise_own_limit_of_files(128 + 2 * bundle.spec.mounts.len() as u64);
    let mut prepared = prepare::prepare(globals, log, id, bundle, options, dir)?;
    prepared.plan.process.limit_files_later(files);
    let made = run(log, bundle, options, dir, &mut prepared);
    if made.is_err() {
        prepared.undo();
    }
    let process = made?;
    let prepare::Prepared { plan, state, .. } = prepared;
    if options.leaves {
        // The plan has some thirty descriptors: the exit of this process closes them without a call for each.
        std::mem::forget(plan);
    }
    Ok((state, process))
}

/// Clones the container's process, and serves it until it is ready.
fn run(
    log: &Log,
    bundle: &Bundle,
    options: &Options,
    dir: &StateDir,
    prepared: &mut prepare::Prepared,
) -> Result<OwnedFd> {
    let (ours, theirs) =
        Channel::pair(log.is_debug()).doing(|| "cannot create a socket pair".to_owned())?;
    let into = prepared.entry_into.take();
    log.debug(|| trace::of_clone(&prepared.plan.namespaces, into.is_some()));
    let beside = prepared.state.rootless && !prepared.state.cgroup.is_v2();
    let ferry = prepared.ferry.take();
    let plan = &mut prepared.plan;
    let (mut process, between) =
        start(plan, &ours, &theirs, into.as_ref(), ferry.as_ref(), beside)?;
    drop(theirs);
    let done = words::serve(
        log,
        bundle,
        options,
        dir,
        prepared,
        &ours,
        &mut process,
        between,
    );
    if done.is_err() {
        let _ = pidfd_signal(process.pidfd.as_fd(), libc::SIGKILL);
        let _ = wait_for(process.pid);
    }
    done.map(|()| process.pidfd)
}

/// Clones the container's process. If other user namespaces are joined, an intermediate process does it, and is
/// returned. If the caller may not clone into the cgroup, a `ferry` moves the process there. A failure to enter a v2
/// cgroup that is only `beside` those of v1 is ignored.
fn start(
    plan: &mut Plan,
    ours: &Channel,
    theirs: &Channel,
    cgroup: Option<&OwnedFd>,
    ferry: Option<&Ferry>,
    beside: bool,
) -> Result<(Cloned, bool)> {
    let others = !plan.namespaces.join.is_empty() || plan.namespaces.user.is_some();
    let between = plan.namespaces.has_users() && others;
    let restore = enter_for_children(plan, between)?;
    let args = CloneArgs {
        namespaces: if between {
            0
        } else {
            plan.namespaces.by_clone()
        },
        // The intermediate process may clone into it as well.
        cgroup: cgroup.map(AsFd::as_fd),
        sibling: false,
        // Not with create hooks, which would run before the container is released from this processor.
        here: plan.create_hooks.steps.is_empty(),
    };
    // A caller who is not root can write ID maps only for a dumpable child. No other process is in its namespace until
    // then.
    let opens_up = plan.opens_up;
    let open_up = |may| {
        let done = if opens_up {
            may_be_looked_into(may)
        } else {
            Ok(())
        };
        done.doing(|| "cannot change the dumpable attribute of this process".to_owned())
    };
    open_up(true)?;
    let refused = |errno| match errno {
        Errno::ACCESS if cgroup.is_some() => Error::new(format!(
            "linux.cgroupsPath: unable to apply cgroup configuration: {}",
            meaning(errno.raw_os_error())
        )),
        _ => Error::new(format!(
            "cannot create the container process (clone3): {}",
            meaning(errno.raw_os_error())
        )),
    };
    let side = match (clone(&args), ferry) {
        (Err(Errno::ACCESS), _) if beside && cgroup.is_some() => {
            let cgroup = None;
            clone(&CloneArgs { cgroup, ..args }).map_err(refused)
        }
        (Err(Errno::ACCESS), Some(ferry)) => clone_away(&args, |pid| ferry.bring(pid))
            .map_err(refused)
            .and_then(|brought| brought.map_err(|error| error.within("linux.cgroupsPath"))),
        (side, _) => side.map_err(refused),
    };
    if let Ok(Side::Child) = side {
        // Otherwise the channel would stay open after the parent's exit.
        close_now(ours.fd());
        if between {
            child::run_between(plan, theirs, cgroup);
        }
        child::run(plan, theirs);
    }
    open_up(false)?;
    for (kind, own) in restore {
        enter_namespaces(own.as_fd(), kind)
            .doing(|| "cannot return to the runtime's own namespaces".to_owned())?;
    }
    match side? {
        Side::Parent(process) => Ok((process, between)),
        Side::Child => Err(Error::new("a child process continued as its parent")),
    }
}

/// Creates the namespaces that only children enter: PID and time namespaces. Returns our own, to go back to. A child
/// with a new user namespace creates its time namespace itself, so that it is owned by that user namespace.
fn enter_for_children(plan: &Plan, between: bool) -> Result<Vec<(u64, OwnedFd)>> {
    let mut restore = Vec::new();
    let own = |name: &str| {
        let path = format!("/proc/self/ns/{name}");
        std::fs::File::open(&path).doing(|| path).map(OwnedFd::from)
    };
    let pid = libc::CLONE_NEWPID as u64;
    if !between && let Some(join) = plan.namespaces.join.iter().find(|join| join.kind == pid) {
        restore.push((pid, own("pid")?));
        enter_namespaces(join.file.as_fd(), pid).doing(|| {
            format!(
                "linux.namespaces[{}]: cannot enter the namespace",
                join.index
            )
        })?;
    }
    if let Some(offsets) = &plan.namespaces.new_time
        && !plan.namespaces.has_users()
    {
        restore.push((NEW_TIME, own("time")?));
        crate::sys::unshare_time()
            .doing(|| "linux.namespaces: cannot create a time namespace".to_owned())?;
        if !offsets.is_empty() {
            std::fs::write("/proc/self/timens_offsets", offsets)
                .doing(|| "linux.timeOffsets: writing /proc/self/timens_offsets".to_owned())?;
        }
    }
    Ok(restore)
}
