//! The init of a PID namespace that the pod's containers share.
//!
//! The containers see it as process 1, and may have the right to inspect other processes (`CAP_SYS_PTRACE`). So it
//! holds nothing of value: no files, no capabilities, no user of the node.

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

/// The user and group `nobody`, as the kernel shows an unmapped ID.
const NOBODY: u32 = 65534;

/// Message of an init that is ready.
const READY: &str = "ready";
/// A longer error message is cut.
const MAX_COMPLAINT: u64 = 1024;

/// Creates the first process of a new PID namespace, and waits until it has dropped everything of the node. It reaps
/// orphans there. It ends with the keeper, and the whole namespace with it. `few` is set if this process's
/// mount namespace has few mounts and its root directory is outside of that namespace.
#[allow(unsafe_code, reason = "this comes before any thread")]
pub(crate) fn spawn(parent: process::Parent, few: bool) -> Result<Pid, String> {
    let failure = |error: String| format!("cannot create the pod's PID namespace: {error}");
    let (complaints, complain) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|error| failure(error.to_string()))?;
    // SAFETY: the only other thread, the log's, is started once there is a pod; the child makes system
    // calls and allocates, and uses no cached PID.
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

/// Waits until the init is ready, or returns its error message.
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
    // The end of the pipe lets the keeper continue. The keeper's input is /dev/null.
    let quiet = stdio::dup2_stderr(stdio::stdin());
    if prepared.is_err() || told.is_err() || quiet.is_err() {
        process::exit_now(1);
    }
    loop {
        // All other signals come from the containers: the keeper sends none but SIGKILL.
        if signal::wait() == libc::SIGCHLD {
            reap();
        }
    }
}

#[allow(unsafe_code, reason = "it gives up all that it inherited")]
fn prepare(complain: OwnedFd, few: bool) -> Result<(), String> {
    // Replaces a file that the init must not keep.
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

/// Replaces the node's file system with an empty one, because containers can reach `/proc/1/root`.
fn leave_files(few: bool) -> Result<(), Errno> {
    // On a directory that every node has; no other process sees the mount.
    let mut place = "/proc";
    if few {
        // Enters its current mount namespace again, to get to that namespace's own root.
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
        // The root of a node that runs from its initial ramdisk cannot be replaced.
        Err(_) => chroot(".")?,
    }
    chdir("/")
}

fn drop_rights() -> Result<(), Errno> {
    set_no_new_privs(true)?;
    set_thread_groups(&[])?;
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    // The user namespace may not map this ID; without capabilities its root is equally harmless.
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
    // Inspecting the process takes CAP_SYS_PTRACE on the node, not just in the pod's user namespace.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // The kernel clears this signal when credentials change.
    set_parent_process_death_signal(Some(Signal::KILL))
}

fn reap() {
    while matches!(wait(WaitOptions::NOHANG), Ok(Some(_)) | Err(Errno::INTR)) {}
}
