//! The init of a PID namespace that the pod's containers share.
//!
//! The containers see it as process 1, and may have been given the right to look into other
//! processes (`CAP_SYS_PTRACE`). So it holds nothing that would be worth it: no files, no rights,
//! no user of the node.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::mount::{mount, mount_change, unmount};
use rustix::process::{
    DumpableBehavior, Gid, Pid, Signal, Uid, WaitOptions, chdir, chroot, pivot_root,
    set_dumpable_behavior, set_parent_process_death_signal, wait,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_name, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::sys::namespace::{UnshareFlags, unshare};
use crate::sys::{process, signal};

/// The user and group of nobody, as the kernel calls it where an id has no meaning.
const NOBODY: u32 = 65534;

/// Makes a process that is the first of a new PID namespace. It collects what is orphaned there,
/// and ends with the keeper, and the whole namespace with it.
pub(crate) fn spawn(parent: process::Parent) -> Result<Pid, String> {
    match process::fork_into_pid_namespace(parent) {
        Ok(process::Fork::Parent(pid)) => Ok(pid),
        Ok(process::Fork::Child) => serve(),
        Err(error) => Err(format!("making the pod's PID namespace: {error}")),
    }
}

fn serve() -> ! {
    if prepare().is_err() {
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

fn prepare() -> Result<(), Errno> {
    // Blocked before anything else: only a blocked signal reaches an init that has no handler.
    signal::block_all().map_err(|_| Errno::INVAL)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_name(c"pod-init")?;
    // Its errors would go to a file that it must not keep.
    let null = rustix::fs::open(
        "/dev/null",
        rustix::fs::OFlags::RDWR,
        rustix::fs::Mode::empty(),
    )?;
    rustix::stdio::dup2_stderr(null.as_fd())?;
    drop(null);
    process::close_from(3).map_err(|_| Errno::BADF)?;
    leave_files()?;
    drop_rights()
}

/// Exchanges the node's file system for an empty one: `/proc/1/root` is within the containers'
/// reach.
fn leave_files() -> Result<(), Errno> {
    unshare(UnshareFlags::NEWNS)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // On any directory that every node has; nobody else sees it.
    let place = "/proc";
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
