//! The init of a PID namespace that the pod's containers share.
//!
//! The containers see it as process 1, and may have been given the right to look into other
//! processes (`CAP_SYS_PTRACE`). So it holds nothing that would be worth it: no files, no rights,
//! no user of the node.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use orlop_keeper_protocol::FEW_MOUNTS_ROOT;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, write};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::mount::{mount, mount_change, unmount};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Gid, Pid, Signal, Uid, WaitOptions, chdir, chroot, pivot_root,
    set_dumpable_behavior, set_parent_process_death_signal, wait,
};
use rustix::stdio;
use rustix::thread::{
    CapabilitySet, CapabilitySets, LinkNameSpaceType, move_into_link_name_space, set_capabilities,
    set_name, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::arguments::hide_behind;
use crate::read::read_start;
use crate::sys::namespace::{UnshareFlags, unshare};
use crate::sys::{process, signal};
use crate::text::text;

/// The user and group of nobody, as the kernel calls it where an id has no meaning.
const NOBODY: u32 = 65534;

/// What an init says that has no complaint.
const READY: &str = "ready";
/// A longer complaint is cut.
const MAX_COMPLAINT: u64 = 1024;

/// Makes a process that is the first of a new PID namespace, and waits until nothing of the node
/// is left to it. It collects what is orphaned there, and ends with the keeper, and the whole
/// namespace with it. `few` tells whether this process's mounts are few, and its root none of them.
#[allow(unsafe_code, reason = "this comes before any thread")]
pub(crate) fn spawn(parent: process::Parent, few: bool) -> Result<Pid, String> {
    let failure = |error: String| format!("cannot create the pod's PID namespace: {error}");
    let (complaints, complain) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|error| failure(error.to_string()))?;
    // SAFETY: the only other thread, the log's, is started once there is a pod; the child makes system
    // calls and allocates, and asks nobody for its own number.
    match unsafe { process::fork_into_pid_namespace(parent) } {
        Ok(process::Fork::Parent(pid)) => {
            drop(complain);
            match complaint(complaints) {
                None => Ok(pid),
                Some(complaint) => Err(failure(format!("its init process: {complaint}"))),
            }
        }
        Ok(process::Fork::Child) => {
            drop(complaints);
            serve(complain, few)
        }
        Err(error) => Err(failure(error.to_string())),
    }
}

/// Waits until the init is ready, or says why it can't be.
fn complaint(from: OwnedFd) -> Option<String> {
    match read_start(File::from(from), MAX_COMPLAINT) {
        Ok(said) if said.is_empty() => Some("it has exited".to_owned()),
        Ok(said) if said == READY.as_bytes() => None,
        Ok(said) => Some(text(&said)),
        Err(error) => Some(error.to_string()),
    }
}

fn serve(complain: OwnedFd, few: bool) -> ! {
    let prepared = prepare(complain, few);
    let text = prepared.as_ref().map_or_else(String::as_str, |()| READY);
    let told = write(stdio::stderr(), text.as_bytes());
    // The end of the pipe lets the other side go on. The keeper's input is /dev/null.
    let quiet = stdio::dup2_stderr(stdio::stdin());
    if prepared.is_err() || told.is_err() || quiet.is_err() {
        process::exit_now(1);
    }
    loop {
        // All others are from the containers: the keeper asks nothing of it, and ends it by
        // SIGKILL.
        if signal::wait() == libc::SIGCHLD {
            reap();
        }
    }
}

#[allow(unsafe_code, reason = "it gives up all that it inherited")]
fn prepare(complain: OwnedFd, few: bool) -> Result<(), String> {
    // In place of a file that it must not keep.
    stdio::dup2_stderr(&complain).map_err(|error| error.to_string())?;
    drop(complain);
    // SAFETY: what the keeper has open is in its own process; nothing here touches the copies, and
    // `serve`, which never returns, drops none of them.
    unsafe { process::close_from(3) }
        .map_err(|error| format!("cannot close inherited files: {error}"))?;
    // Blocked before anything else: only a blocked signal reaches an init that has no handler.
    signal::block_all().map_err(|error| format!("cannot block signals: {error}"))?;
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("cannot set the parent death signal: {error}"))?;
    set_name(c"pod-init").map_err(|error| format!("cannot set the process name: {error}"))?;
    hide_behind("pod-init")
        .map_err(|error| format!("cannot hide the process arguments: {error}"))?;
    leave_files(few).map_err(|error| format!("cannot leave the host's file system: {error}"))?;
    drop_rights().map_err(|error| format!("cannot drop capabilities: {error}"))
}

/// Exchanges the node's file system for an empty one: `/proc/1/root` is within the containers'
/// reach.
fn leave_files(few: bool) -> Result<(), Errno> {
    // On any directory that every node has; nobody else sees it.
    let mut place = "/proc";
    if few {
        // To its own root, by entering the namespace where it is.
        let own = open(
            "/proc/self/ns/mnt",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::Mount))?;
        place = FEW_MOUNTS_ROOT;
    }
    unshare(UnshareFlags::NEWNS)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount(
        "none",
        place,
        "tmpfs",
        flags,
        Some(c"mode=0555,size=4k,nr_inodes=2"),
    )?;
    chdir(place)?;
    match pivot_root(".", ".") {
        Ok(()) => unmount(".", UnmountFlags::DETACH)?,
        // A node that runs from its initial ramdisk has a root that cannot be exchanged.
        Err(_) => chroot(".")?,
    }
    chdir("/")
}

fn drop_rights() -> Result<(), Errno> {
    set_no_new_privs(true)?;
    set_thread_groups(&[])?;
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    // A user namespace may have nobody of that number; without capabilities its root is as good.
    match set_thread_res_gid(group, group, group) {
        Err(Errno::INVAL) => {}
        set => set?,
    }
    match set_thread_res_uid(user, user, user) {
        Err(Errno::INVAL) => {}
        set => set?,
    }
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    set_capabilities(None, sets)?;
    // To look into it takes CAP_SYS_PTRACE on the node, not just in the pod's user namespace.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // A change of rights takes this back.
    set_parent_process_death_signal(Some(Signal::KILL))
}

fn reap() {
    while matches!(wait(WaitOptions::NOHANG), Ok(Some(_)) | Err(Errno::INTR)) {}
}
