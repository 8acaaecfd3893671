//! Starts a process in a time that does not depend on the number of open files.
//!
//! `fork` and `posix_spawn` copy the table of open files, only to close all of them again: a daemon has some for each
//! pod. Here the child shares the table until it gets its own, without any descriptor above a low number. The program
//! is started as an orphan, which costs nothing here; a program that daemonizes itself would have to fork.
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

/// A descriptor with a low number, opened once and kept. The child's standard input is moved there for the start.
static SLOT: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// Stack size of both children until `execve`, which needs little.
const STACK: usize = 64 << 10;

/// Tells the program that it is already an orphan.
const LEFT: &CStr = c"left";

/// All data that the child needs, prepared before the child exists.
struct Plan<'a> {
    program: &'a CStr,
    argv: [*const c_char; 4],
    envp: [*const c_char; 1],
    slot: RawFd,
    /// The end of the second child's stack.
    top: *mut c_void,
    /// While this exists, the children start on this thread's processor.
    here: Option<Here>,
    /// Error number of a failure in the children.
    errno: c_int,
}

/// Starts a program as an orphan, with one argument and [`LEFT`], no environment, `stdin`, and no other open
/// descriptors. All its signals are blocked. Returns the intermediate process, which exits at once.
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
    // Close our copy, so that the peer of `stdin` notices when the child ends.
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

/// Creates a string argument for [`start`].
pub(super) fn word(text: impl Into<Vec<u8>>) -> io::Result<CString> {
    CString::new(text).map_err(io::Error::other)
}

fn null() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(open("/dev/null", flags, Mode::empty())?)
}

/// Creates the child; returns once the program is executed or has failed.
fn clone(plan: &mut Plan<'_>) -> io::Result<Pid> {
    // Units of 16 bytes, as the end of the stack must be aligned to that.
    let mut stack = vec![0_u128; STACK / size_of::<u128>()];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::SIGCHLD;
    plan.here = Here::stay();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the sets are initialized before they are read. The child runs `child` on its own stack while CLONE_VFORK
    // suspends this thread, so the plan and the stack outlive their use. No handler runs in it, since all signals are
    // blocked.
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

/// Code of the first child: system calls only. It shares the memory, and at first the table of open files.
extern "C" fn child(plan: *mut c_void) -> c_int {
    // SAFETY: this is the plan of `clone`, which nothing else accesses while this runs. The table of open files is not
    // changed before the child has its own.
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
                // The process ID cannot be reused before this process exits.
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

/// Code of the second child, which executes the program.
extern "C" fn second_child(plan: *mut c_void) -> c_int {
    // SAFETY: as for `child`, which is suspended.
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
        // A descriptor that a child would inherit.
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
        // Few descriptors are free below the number that was taken first.
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
        // No process holds the other end.
        assert_eq!(ours.read(&mut [0]).unwrap(), 0);
    }
}
