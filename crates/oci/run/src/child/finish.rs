//! The last steps of a process before it executes its program: limits, capabilities, working directory, terminal. For a
//! container's first process and for those that join it.

use std::convert::Infallible;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Gid, Mode, OFlags, RawMode, ResolveFlags, accessat, fchown,
    fstat, openat, openat2,
};
use rustix::io::Errno;
use rustix::process::{Resource, chdir, setsid, umask};
use rustix::thread::{
    sched_setaffinity, set_keep_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use super::passwd;
use crate::null::is_null;
use crate::plan::ProcessPlan;
use crate::report::{At, Channel, Fault, Step, Word};
use crate::sys::{
    execute, join_session_keyring, set_ambient, set_capability_sets, set_io_priority,
    set_memory_policy, set_personality, set_rlimit_of, set_scheduler,
    working_directory_is_reachable,
};

/// Sets limits that need the host's privileges or files.
pub(super) fn limits(process: &ProcessPlan) -> Result<(), Fault> {
    for (index, (resource, soft, hard)) in process.limits_at_once() {
        set_rlimit_of(0, resource, soft, hard).at_index(Step::Rlimit, index as u16)?;
    }
    if let Some(score) = &process.oom_score_adj {
        let file = openat(
            CWD,
            c"/proc/self/oom_score_adj",
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .at(Step::OomScoreAdj)?;
        rustix::io::write(&file, score.to_bytes()).at(Step::OomScoreAdj)?;
    }
    Ok(())
}

/// Sets the SELinux label of the next keyring to the program's label: with the caller's label the program could not use
/// it. Like the other attributes, this is written to the host's `/proc`.
pub(super) fn label_of_keys(process: &ProcessPlan) -> Result<(), Fault> {
    let (Some(label), Some(_)) = (&process.selinux, &process.keyring) else {
        return Ok(());
    };
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = match openat(
        CWD,
        c"/proc/thread-self/attr/keycreate",
        flags,
        Mode::empty(),
    ) {
        // A kernel without keyrings.
        Err(Errno::NOENT) => return Ok(()),
        file => file.at_index(Step::Label, 2)?,
    };
    rustix::io::write(&file, label.to_bytes())
        .map(drop)
        .at_index(Step::Label, 2)
}

/// Creates a new session and session keyring.
pub(super) fn session(process: &ProcessPlan, with_users: Option<bool>) -> Result<(), Fault> {
    match setsid() {
        // The process leads a session already.
        Ok(_) | Err(Errno::PERM) => {}
        Err(errno) => return Err(errno).at(Step::Session),
    }
    if let Some(name) = &process.keyring {
        match join_session_keyring(name, with_users) {
            // A kernel without keyrings.
            Ok(()) | Err(Errno::NOSYS) => {}
            Err(errno) => return Err(errno).at(Step::Session),
        }
    }
    Ok(())
}

/// Sets the scheduling and the memory policy.
pub(super) fn scheduling(process: &ProcessPlan) -> Result<(), Fault> {
    if let Some(cpus) = &process.affinity {
        sched_setaffinity(None, cpus).at(Step::Affinity)?;
    } else {
        let _ = orlop_process::processor::anywhere();
    }
    if let Some(attr) = &process.scheduler {
        set_scheduler(attr).at(Step::Scheduler)?;
    }
    if let Some(priority) = process.io_priority {
        set_io_priority(priority).at(Step::IoPriority)?;
    }
    if let Some((mode, nodes)) = &process.memory_policy {
        set_memory_policy(*mode, nodes).at(Step::MemoryPolicy)?;
    }
    if let Some(domain) = process.personality {
        set_personality(domain).at(Step::Personality)?;
    }
    Ok(())
}

/// Writes the AppArmor profile and SELinux label of the next program, directly to the kernel's `/proc` and not to a
/// mount over it.
pub(super) fn labels(process: &ProcessPlan, proc: BorrowedFd<'_>) -> Result<(), Fault> {
    let write = |files: &[&CStr], text: &CStr| -> rustix::io::Result<()> {
        let mut outcome = Err(Errno::NOENT);
        for file in files {
            // `thread-self` is a symlink.
            outcome = open_proc(proc, file, ResolveFlags::NO_MAGICLINKS)
                .and_then(|file| rustix::io::write(&file, text.to_bytes()).map(drop));
            if outcome != Err(Errno::NOENT) {
                break;
            }
        }
        outcome
    };
    if let Some(profile) = &process.apparmor {
        // The second file exists on kernels on which AppArmor shares it with other modules.
        let files = [c"thread-self/attr/apparmor/exec", c"thread-self/attr/exec"];
        write(&files, profile).at_index(Step::Label, 0)?;
    }
    if let Some(label) = &process.selinux {
        write(&[c"thread-self/attr/exec"], label).at_index(Step::Label, 1)?;
    }
    Ok(())
}

/// Closes descriptors that are not needed any more. A seccomp filter set next may not allow that call, and the program
/// must inherit no descriptor that the caller left open.
pub(super) fn close_the_rest(
    process: &ProcessPlan,
    channel: &Channel,
    kept: [Option<BorrowedFd<'_>>; 4],
) -> Result<(), Fault> {
    let channel = number(channel.fd());
    let [first, second, third, fourth] = kept.map(|kept| kept.map_or(channel, number));
    let mut kept = [channel, first, second, third, fourth];
    close_all_but(process.preserve_fds, &mut kept);
    match process.files {
        Some((index, soft, hard)) => {
            set_rlimit_of(0, Resource::Nofile, soft, hard).at_index(Step::Rlimit, index)
        }
        None => Ok(()),
    }
}

/// Drops privileges and becomes the user; returns the index of the program that exists.
pub(super) fn become_user(process: &mut ProcessPlan, channel: &Channel) -> Result<usize, Fault> {
    // As root first: the directory may be one that only root may enter.
    let entered = chdir(process.cwd.as_c_str());
    if entered.is_ok() {
        see_where_it_is()?;
    }
    if process.no_new_privileges {
        set_no_new_privs(true).at(Step::NoNewPrivileges)?;
    } else {
        // Without `no_new_privs`, setting the filter needs a privilege that is about to be dropped.
        filter(process, channel)?;
    }
    streams(process).at(Step::Streams)?;
    for cap in 0..=process.last_cap {
        if process.caps.bounding & (1 << cap) == 0 {
            drop_bounding(cap).at(Step::Bounding)?;
        }
    }
    umask(Mode::from_raw_mode(process.umask as RawMode));
    if process.finds_home {
        passwd::fill(process);
    }
    set_keep_capabilities(true).at(Step::Capabilities)?;
    set_groups(&process.groups).at(Step::Groups)?;
    set_thread_res_gid(process.gid, process.gid, process.gid).at(Step::Groups)?;
    set_thread_res_uid(process.uid, process.uid, process.uid).at(Step::Groups)?;
    match entered {
        // Or one that only the user may enter.
        Err(Errno::ACCESS | Errno::PERM) => {
            chdir(process.cwd.as_c_str()).at(Step::WorkingDirectory)?;
            see_where_it_is()?;
        }
        entered => entered.at(Step::WorkingDirectory)?,
    }
    set_keep_capabilities(false).at(Step::Capabilities)?;
    set_capability_sets(&process.caps).at(Step::Capabilities)?;
    for cap in 0..=process.last_cap {
        if process.caps.ambient & (1 << cap) != 0 {
            set_ambient(cap).at(Step::Ambient)?;
        }
    }
    let program = program(process)?;
    if process.no_new_privileges {
        filter(process, channel)?;
    }
    Ok(program)
}

fn see_where_it_is() -> Result<(), Fault> {
    if working_directory_is_reachable().at(Step::WorkingDirectory)? {
        Ok(())
    } else {
        Err(Errno::NOENT).at(Step::WorkingDirectoryOutside)
    }
}

/// Executes the program.
pub(super) fn become_program(
    process: &ProcessPlan,
    index: usize,
    channel: &Channel,
) -> Result<Infallible, Fault> {
    // No descriptor of the host may be reachable through `/proc/self/fd` while the kernel loads the program and its
    // interpreters. The channel leads nowhere, and the kernel closes it.
    close_all_but(process.preserve_fds, &mut [number(channel.fd())]);
    let Some(program) = process.programs.get(index) else {
        return Err(Errno::NOENT).at(Step::Execute);
    };
    Err(execute(program, &process.args, &process.env)).at_index(Step::Execute, index as u16)
}

fn filter(process: &ProcessPlan, channel: &Channel) -> Result<(), Fault> {
    let Some(seccomp) = &process.seccomp else {
        return Ok(());
    };
    if let Some(listener) = seccomp.install().at(Step::Seccomp)? {
        let word = Word::Listener(listener);
        channel
            .tell(&word)
            .and_then(|()| channel.wait())
            .at(Step::Seccomp)?;
    }
    Ok(())
}

/// Returns the index of the first path at which the program exists.
fn program(process: &ProcessPlan) -> Result<usize, Fault> {
    if process.programs.is_empty() {
        return Ok(0);
    }
    let mut worst = Errno::NOENT;
    for (index, program) in process.programs.iter().enumerate() {
        let is_program = may_execute(program).and_then(|()| {
            let look = rustix::fs::stat(program.as_c_str())?;
            match FileType::from_raw_mode(look.st_mode) {
                FileType::Directory => Err(Errno::ISDIR),
                _ => Ok(()),
            }
        });
        match is_program {
            Ok(()) => return Ok(index),
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => worst = errno,
        }
    }
    let step = if process.programs.len() == 1 {
        Step::Program
    } else {
        Step::ProgramMissing
    };
    Err(Fault {
        step,
        index: 0,
        errno: worst,
    })
}

/// Checks if the user may execute it. Filters older than `faccessat2(2)` refuse that call. Then the older call is used,
/// which checks the real IDs; these are the same by now.
fn may_execute(program: &CStr) -> rustix::io::Result<()> {
    match accessat(CWD, program, Access::EXEC_OK, AtFlags::EACCESS) {
        Err(Errno::PERM | Errno::NOSYS) => {
            accessat(CWD, program, Access::EXEC_OK, AtFlags::empty())
        }
        asked => asked,
    }
}

/// Changes the owner of inherited pipes and terminals to the user, so that the program can reopen them through
/// `/dev/stdout`.
fn streams(process: &ProcessPlan) -> rustix::io::Result<()> {
    for stream in [
        rustix::stdio::stdin(),
        rustix::stdio::stdout(),
        rustix::stdio::stderr(),
    ] {
        let Ok(look) = fstat(stream) else {
            continue;
        };
        if is_null(&look) || look.st_uid == process.uid.as_raw() {
            continue;
        }
        match fchown(stream, Some(process.uid), Some(Gid::from_raw(look.st_gid))) {
            // Streams of other users and of read-only file systems stay unchanged.
            Ok(()) | Err(Errno::INVAL | Errno::PERM | Errno::ROFS) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn set_groups(groups: &[Gid]) -> rustix::io::Result<()> {
    match set_thread_groups(groups) {
        // In a user namespace made without privileges, setgroups may be denied (`user_namespaces(7)`).
        Err(Errno::PERM) if groups.is_empty() => Ok(()),
        done => done,
    }
}

/// Removes a capability from the bounding set.
fn drop_bounding(cap: u32) -> rustix::io::Result<()> {
    match crate::sys::drop_from_bounding(cap) {
        // The kernel does not know this capability.
        Err(Errno::INVAL) => Ok(()),
        done => done,
    }
}

fn close_all_but(preserved: u32, kept: &mut [u32]) {
    crate::sys::close_from(3 + preserved, kept);
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd() as u32
}

/// Opens a private `/proc` if none was made for the container.
pub(super) fn proc_for(needed: bool, made: Option<OwnedFd>) -> Result<Option<OwnedFd>, Fault> {
    match made {
        Some(made) => Ok(Some(made)),
        None if needed => super::fresh::own_proc().map(Some).at(Step::Proc),
        None => Ok(None),
    }
}

/// Writes a file below a `/proc`, but not to a mount over it.
pub(super) fn write_proc(
    proc: BorrowedFd<'_>,
    file: &CStr,
    value: &CStr,
) -> rustix::io::Result<()> {
    let file = open_proc(proc, file, ResolveFlags::NO_SYMLINKS)?;
    rustix::io::write(&file, value.to_bytes()).map(drop)
}

fn open_proc(
    proc: BorrowedFd<'_>,
    file: &CStr,
    links: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | links;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    openat2(proc, file, flags, Mode::empty(), resolve)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn labels_reach_the_thread_by_the_kernels_own_link() {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let proc = openat(CWD, c"/proc", flags, Mode::empty()).unwrap();
        let links = ResolveFlags::NO_MAGICLINKS;
        let own = open_proc(proc.as_fd(), c"thread-self/comm", links).unwrap();
        rustix::io::write(&own, b"labelled").unwrap();
        let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        assert_eq!(name.trim(), "labelled");
        let out = open_proc(proc.as_fd(), c"thread-self/cwd", links);
        assert_eq!(out.unwrap_err(), Errno::LOOP);
    }
}
