//! A process that joins a container.

use std::convert::Infallible;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{chroot, fchdir};

use super::{become_root, die_with_parent, enter_cgroups, fail, finish, null, terminal};
use crate::heap;
use crate::plan::ProcessPlan;
use crate::report::{At, Channel, Fault, Step};
use crate::sys::enter_namespaces;

/// What a process joins, and what it becomes there.
#[derive(Debug)]
pub(crate) struct Joining {
    /// The container's first process.
    pub(crate) init: OwnedFd,
    /// `CLONE_NEW…` of what is the container's own, but for its processes.
    pub(crate) namespaces: u64,
    pub(crate) has_users: bool,
    /// Its root where that is not its mount namespace's.
    pub(crate) root: Option<OwnedFd>,
    pub(crate) tasks: Vec<OwnedFd>,
    pub(crate) process: ProcessPlan,
}

/// Joins.
pub(crate) fn run(joining: &mut Joining, channel: &Channel) -> ! {
    heap::refuse();
    let Err(fault) = live(joining, channel);
    fail(fault, channel)
}

fn live(joining: &mut Joining, channel: &Channel) -> Result<Infallible, Fault> {
    die_with_parent().at(Step::Parent)?;
    enter_cgroups(&joining.tasks)?;
    finish::limits(&joining.process)?;
    let lent = null::lend();
    enter_namespaces(joining.init.as_fd(), joining.namespaces).at(Step::Join)?;
    if let Some(root) = joining.root.take() {
        fchdir(&root).and_then(|()| chroot(c".")).at(Step::Join)?;
    }
    if joining.has_users {
        become_root()?;
        die_with_parent().at(Step::Parent)?;
    }
    // Where the container has none any more, nor the host its own to lend, it stays as it is.
    let _ = null::open_again(lent.as_ref());
    drop(lent);
    finish::session(&joining.process, None)?;
    let process = &joining.process;
    let proc = finish::proc_for(
        process.apparmor.is_some() || process.selinux.is_some(),
        None,
    )?;
    if let Some(wanted) = &process.terminal {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, c"/", flags, Mode::empty()).at(Step::Terminal)?;
        let this = terminal::open(wanted, root.as_fd(), false).at(Step::Terminal)?;
        terminal::take(this).at(Step::Terminal)?;
    }
    if let Some(proc) = &proc {
        finish::labels(process, proc.as_fd())?;
    }
    drop(proc);
    finish::scheduling(process)?;
    finish::close_the_rest(process, channel, [None, None])?;
    let program = finish::become_user(&mut joining.process, channel)?;
    let _ = rustix::process::set_parent_process_death_signal(None);
    finish::become_program(&joining.process, program, channel)
}
