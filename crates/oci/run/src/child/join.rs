//! The child process that joins a container.

use std::convert::Infallible;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{chroot, fchdir};

use super::{become_root, die_with_parent, enter_cgroups, fail, finish, terminal};
use crate::heap;
use crate::null;
use crate::plan::ProcessPlan;
use crate::report::{At, Channel, Fault, Step, Word};
use crate::sys::{CloneArgs, Side, clone, enter_namespaces, exit_now};

/// The namespaces that a process joins, and its plan.
#[derive(Debug)]
pub(crate) struct Joining {
    /// The container's first process.
    pub(crate) init: OwnedFd,
    /// `CLONE_NEW…` of the container's own namespaces, without the PID namespace if the parent has entered it.
    pub(crate) namespaces: u64,
    /// Whether the PID namespace is among them: then only a child is in it.
    pub(crate) by_child: bool,
    pub(crate) has_users: bool,
    /// The root directory, if it is not that of the mount namespace.
    pub(crate) root: Option<OwnedFd>,
    pub(crate) tasks: Vec<OwnedFd>,
    pub(crate) process: ProcessPlan,
}

/// Joins the container and executes the program.
pub(crate) fn run(joining: &mut Joining, channel: &Channel) -> ! {
    heap::refuse();
    let Err(fault) = live(joining, channel);
    fail(fault, channel)
}

/// Continues as a child of this process's parent, which is told its PID.
fn become_sibling(channel: &Channel) -> Result<(), Fault> {
    let args = CloneArgs {
        sibling: true,
        ..CloneArgs::default()
    };
    match clone(&args).at(Step::Intermediate)? {
        Side::Child => die_with_parent().at(Step::Parent),
        Side::Parent(process) => {
            channel.tell(&Word::Made(process.pid)).at(Step::Parent)?;
            exit_now(0)
        }
    }
}

fn live(joining: &mut Joining, channel: &Channel) -> Result<Infallible, Fault> {
    die_with_parent().at(Step::Parent)?;
    channel.did(Step::Parent, 0);
    enter_cgroups(&joining.tasks)?;
    finish::limits(&joining.process)?;
    finish::label_of_keys(&joining.process)?;
    enter_namespaces(joining.init.as_fd(), joining.namespaces).at(Step::Join)?;
    channel.did(Step::Join, 0);
    if joining.by_child {
        become_sibling(channel)?;
    }
    if let Some(root) = joining.root.take() {
        fchdir(&root).and_then(|()| chroot(c".")).at(Step::Join)?;
    }
    if joining.has_users {
        become_root()?;
        die_with_parent().at(Step::Parent)?;
    }
    if null::open_again(None).is_err() {
        let lent = channel.tell(&Word::Null).and_then(|()| channel.take());
        // If neither the container nor the host has a null device to use, the stream stays as it is.
        let _ = null::open_again(lent.ok().as_ref());
    }
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
    finish::close_the_rest(process, channel, [None; 4])?;
    let program = finish::become_user(&mut joining.process, channel)?;
    channel.did(Step::Groups, 0);
    let _ = rustix::process::set_parent_process_death_signal(None);
    finish::become_program(&joining.process, program, channel)
}
