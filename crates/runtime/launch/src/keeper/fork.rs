//! Starting a process at a price that does not depend on how many files are open.
//!
//! Whatever starts a process by `fork` or `posix_spawn` gives it a copy of the table of open files,
//! only to close all of them: a daemon has some for each pod. Here the child shares the table until it
//! gets one of its own, with nothing in it from a low number on. What it starts is nobody's child, which
//! costs nothing here: a program that left its parent by itself would copy itself for that.
#![allow(
    unsafe_code,
    reason = "the standard library's way copies the table of open files"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use orlop_process::processor::Here;
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::Pid;

/// A low number, taken once and kept: what a child is to have is put there while it is started.
static SLOT: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// What the child and its child do with it ends before `execve`, which needs little.
const STACK: usize = 64 << 10;

/// Tells the program that it has been left by its parent already.
const LEFT: &CStr = c"left";

/// All that the child needs, made before there is one.
struct Plan<'a> {
    program: &'a CStr,
    argv: [*const c_char; 4],
    envp: [*const c_char; 1],
    slot: RawFd,
    /// The end of the second child's stack.
    top: *mut c_void,
    /// While this is there, they are born where this thread is.
    here: Option<Here>,
    /// What went wrong in the children.
    errno: c_int,
}

/// Starts a program as nobody's child, with one argument and [`LEFT`], no environment, `stdin`, and
/// nothing else that is open here. All signals are blocked in it. Returns the process between, which
/// ends at once.
pub(super) fn start(program: &CStr, argument: &CStr, stdin: OwnedFd) -> io::Result<Pid> {
    let mut slot = SLOT.lock();
    let slot = match &mut *slot {
        Some(slot) => slot,
        empty => empty.insert(null()?),
    };
    rustix::io::dup3(&stdin, slot, rustix::io::DupFlags::CLOEXEC)?;
    drop(stdin);
    let mut plan = Plan {
        program,
        argv: [
            program.as_ptr(),
            argument.as_ptr(),
            LEFT.as_ptr(),
            ptr::null(),
        ],
        envp: [ptr::null()],
        slot: slot.as_raw_fd(),
        top: ptr::null_mut(),
        here: None,
        errno: 0,
    };
    let started = clone(&mut plan);
    // The other end is to see the child's end, and not wait for ours.
    let emptied = null().and_then(|null| {
        let emptied = rustix::io::dup3(&null, slot, rustix::io::DupFlags::CLOEXEC);
        Ok(emptied?)
    });
    let pid = orlop_pool::started(started)?;
    if plan.errno != 0 || emptied.is_err() {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        emptied?;
        return orlop_pool::started(Err(io::Error::from_raw_os_error(plan.errno)));
    }
    Ok(pid)
}

/// Words for [`start`].
pub(super) fn word(text: impl Into<Vec<u8>>) -> io::Result<CString> {
    CString::new(text).map_err(io::Error::other)
}

fn null() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(open("/dev/null", flags, Mode::empty())?)
}

/// Makes the child, and returns once it executes its program or has failed to.
fn clone(plan: &mut Plan<'_>) -> io::Result<Pid> {
    // Of 16-byte units: so is the stack's end to be aligned.
    let mut stack = vec![0_u128; STACK / size_of::<u128>()];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::SIGCHLD;
    plan.here = Here::stay();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the sets are made before they are read. The child runs `child` on a stack of its own
    // while this thread stands still, as CLONE_VFORK has it, so that the plan and the stack outlive
    // its use of them; no handler runs in it, since all signals are blocked.
    let pid = unsafe {
        let (second, first) = stack.split_at_mut(STACK / size_of::<u128>() / 2);
        plan.top = second.as_mut_ptr_range().end.cast::<c_void>();
        let top = first.as_mut_ptr_range().end.cast::<c_void>();
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let pid = libc::clone(child, top, flags, ptr::from_mut(plan).cast());
        let failure = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        if pid < 0 { Err(failure) } else { Ok(pid) }
    };
    plan.here = None;
    pid.and_then(|pid| Pid::from_raw(pid).ok_or_else(|| io::ErrorKind::Other.into()))
}

/// The child's part: system calls only. It shares the memory, and at first the table of open files.
extern "C" fn child(plan: *mut c_void) -> c_int {
    // SAFETY: it is the plan of `clone`, which nobody else touches for as long as this runs. Before the
    // table of open files is its own nothing of it is changed.
    unsafe {
        let plan = &mut *plan.cast::<Plan<'_>>();
        let unshare = libc::CLOSE_RANGE_UNSHARE;
        let first = plan.slot + 1;
        let own = libc::syscall(libc::SYS_close_range, first, u32::MAX, unshare) == 0
            && libc::dup2(plan.slot, 0) == 0
            && {
                let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
                null >= 0 && libc::dup2(null, 1) == 1 && libc::dup2(null, 2) == 2
            }
            && libc::chdir(c"/".as_ptr()) == 0;
        if own {
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            let pid = libc::clone(second_child, plan.top, flags, ptr::from_mut(plan).cast());
            if pid > 0 {
                // Its number is nobody else's before this process ends.
                if let Some((here, pid)) = plan.here.as_ref().zip(Pid::from_raw(pid)) {
                    here.release(pid);
                }
                libc::_exit(0);
            }
        }
        plan.errno = *libc::__errno_location();
        libc::_exit(127)
    }
}

/// The part of the child's child: it is executed.
extern "C" fn second_child(plan: *mut c_void) -> c_int {
    // SAFETY: as for `child`, which stands still.
    unsafe {
        let plan = &mut *plan.cast::<Plan<'_>>();
        let (program, argv) = (plan.program.as_ptr(), plan.argv.as_ptr());
        libc::execve(program, argv, plan.envp.as_ptr());
        plan.errno = *libc::__errno_location();
        libc::_exit(127)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use rustix::process::WaitOptions;

    use super::*;

    #[test]
    fn a_child_has_what_it_is_given_and_nothing_that_was_opened_since() {
        let reap = |pid| rustix::process::waitpid(Some(pid), WaitOptions::empty());
        let first = start(c"/bin/true", c"", null().unwrap()).unwrap();
        reap(first).unwrap();
        // What would be passed on to others.
        let many: Vec<_> = (0..200)
            .map(|_| open("/dev/zero", OFlags::RDONLY, Mode::empty()).unwrap())
            .collect();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("script");
        std::fs::write(&file, "echo $(readlink /proc/$$/fd/*) >&0").unwrap();
        let file = word(file.to_str().unwrap()).unwrap();
        let pid = start(c"/bin/sh", &file, theirs.into()).unwrap();
        let said = orlop_fs::read_whole_text(ours, 1 << 16).unwrap();
        reap(pid).unwrap();
        assert!(
            said.contains("socket:") && said.contains("/dev/null"),
            "{said}"
        );
        // Below the number that was taken first there is little room.
        assert!(said.matches("/dev/zero").count() < 10, "{said}");
        for one in &many {
            rustix::io::fcntl_getfd(one).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_executed_is_told() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let error = start(c"/nowhere", c"x", theirs.into()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        // Nobody holds the other end.
        assert_eq!(ours.read(&mut [0]).unwrap(), 0);
    }
}
