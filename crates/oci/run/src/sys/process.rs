//! Executes programs, waits for processes, sends signals.
#![allow(
    unsafe_code,
    reason = "these calls take pointers, or are wrapped nowhere"
)]

use std::ffi::{CStr, CString, c_char};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::{Errno, Result};
use rustix::process::{Pid, Resource};

use super::clone::last;

/// A list of strings for `execve`.
#[derive(Debug, Default)]
pub(crate) struct Image {
    strings: Vec<CString>,
    /// Space for a last string, which is written when memory can no longer be allocated.
    room: Vec<u8>,
    pointers: Vec<*const c_char>,
}

impl Image {
    pub(crate) fn new(strings: Vec<CString>) -> Self {
        let mut pointers: Vec<*const c_char> = strings.iter().map(|it| it.as_ptr()).collect();
        pointers.push(std::ptr::null());
        Self {
            strings,
            room: Vec::new(),
            pointers,
        }
    }

    /// Reserves space for one more string of at most `length` bytes.
    pub(crate) fn with_room(mut self, length: usize) -> Self {
        self.room = vec![0; length + 1];
        self.pointers.push(std::ptr::null());
        self
    }

    pub(crate) fn strings(&self) -> &[CString] {
        &self.strings
    }

    /// Writes a variable into the reserved space; without enough space it is omitted.
    pub(crate) fn fill_room(&mut self, name: &[u8], value: &[u8]) {
        let (middle, end) = (name.len(), name.len() + value.len());
        // The last byte stays NUL.
        if end < self.room.len() {
            self.room[..middle].copy_from_slice(name);
            self.room[middle..end].copy_from_slice(value);
            self.pointers[self.strings.len()] = self.room.as_ptr().cast();
        }
    }
}

/// Executes another program; returns only if that fails.
pub(crate) fn execute(program: &CStr, args: &Image, env: &Image) -> Errno {
    // SAFETY: both lists end with a null, and their strings live as long as they do.
    unsafe {
        libc::execve(
            program.as_ptr(),
            args.pointers.as_ptr(),
            env.pointers.as_ptr(),
        );
    }
    last()
}

/// Ends this process without running exit handlers.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: this is always allowed.
    unsafe { libc::_exit(code) }
}

/// Joins a new session keyring of this name, which processes that join the container later may find. Adds the search
/// permission to the kernel's defaults (`KEY_POS_ALL`, `KEY_USR_VIEW`, `KEY_USR_READ`): for its user, or for all in a
/// user namespace.
pub(crate) fn join_session_keyring(name: &CStr, with_users: Option<bool>) -> Result<()> {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_long = 1;
    const KEYCTL_SETPERM: libc::c_long = 5;
    const FOR_ITS_USER: libc::c_long = 0x3f1b_0000;
    const FOR_ALL: libc::c_long = 0x3f13_0008;
    // SAFETY: the name is terminated.
    let keyring = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            KEYCTL_JOIN_SESSION_KEYRING,
            name.as_ptr(),
            0,
            0,
            0,
        )
    };
    if keyring < 0 {
        return Err(last());
    }
    let permissions = match with_users {
        Some(true) => FOR_ALL,
        Some(false) => FOR_ITS_USER,
        // A process that joins later leaves it unchanged.
        None => return Ok(()),
    };
    // SAFETY: the call takes numbers alone. Where it is refused the keyring is as it was made.
    unsafe {
        libc::syscall(libc::SYS_keyctl, KEYCTL_SETPERM, keyring, permissions, 0, 0);
    }
    Ok(())
}

/// Sets the execution domain, see `personality(2)`.
pub(crate) fn set_personality(domain: u32) -> Result<()> {
    // SAFETY: no memory is passed.
    let result = unsafe { libc::personality(libc::c_ulong::from(domain)) };
    if result >= 0 { Ok(()) } else { Err(last()) }
}

/// Sets a limit of another process (or of the caller, for 0).
pub(crate) fn set_rlimit_of(pid: i32, resource: Resource, soft: u64, hard: u64) -> Result<()> {
    let limit = rustix::process::Rlimit {
        current: (soft != u64::MAX).then_some(soft),
        maximum: (hard != u64::MAX).then_some(hard),
    };
    rustix::process::prlimit(Pid::from_raw(pid), resource, limit).map(drop)
}

/// Raises the soft limit of open files to the hard limit if more are needed. Returns the limit before a change.
pub(crate) fn raise_own_limit_of_files(needed: u64) -> Option<(u64, u64)> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let number = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    let (soft, hard) = (number(limit.current), number(limit.maximum));
    if soft >= needed.min(hard) || set_rlimit_of(0, Resource::Nofile, hard, hard).is_err() {
        return None;
    }
    Some((soft, hard))
}

/// Opens a pidfd of a process.
pub(crate) fn open_pidfd(pid: i32) -> Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
}

/// Signals the process behind a pidfd; the number may be a real-time signal.
pub(crate) fn pidfd_signal(process: BorrowedFd<'_>, signal: i32) -> Result<()> {
    // SAFETY: no memory is passed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Waits for a child's exit: its exit code, or 128 plus the signal that killed it.
pub(crate) fn wait_for(pid: i32) -> Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: the status lives across the call.
        let result = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        match result {
            -1 if last() == Errno::INTR => {}
            -1 => return Err(last()),
            _ if libc::WIFEXITED(status) => return Ok(libc::WEXITSTATUS(status)),
            _ => return Ok(128 + libc::WTERMSIG(status)),
        }
    }
}

/// Returns whether the descriptor becomes readable within the given milliseconds.
pub(crate) fn poll_in(fd: BorrowedFd<'_>, milliseconds: i32) -> bool {
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure is passed, and lives across the call.
    unsafe { libc::poll(&raw mut poll, 1, milliseconds) > 0 }
}

/// Lets termination signals end this process: the kernel does not deliver them to the first process of a PID namespace
/// by default. Ignored signals stay ignored, and `execve` resets the handlers.
pub(crate) fn end_when_asked() {
    extern "C" fn end(signal: libc::c_int) {
        // SAFETY: this is always allowed, in a handler too.
        unsafe { libc::_exit(128 + signal) }
    }
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: the structures are whole and live across the calls; the handler makes one call that may be
        // made there.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &raw mut action) != 0
                || action.sa_sigaction != libc::SIG_DFL
            {
                continue;
            }
            action.sa_sigaction = end as *const () as libc::sighandler_t;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Blocks all signals and delivers them through a descriptor.
pub(crate) fn raise_signals() -> Result<OwnedFd> {
    // SAFETY: the set is filled before it is read; the descriptor is a new one.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        if libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()) != 0 {
            return Err(last());
        }
        let fd = libc::signalfd(-1, &raw const all, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(last());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Returns whether the working directory is below the root directory.
pub(crate) fn working_directory_is_reachable() -> Result<bool> {
    let mut path = [0u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer has the given length. The system call is made directly: the library's
    // function would go looking for the directory when it is not below the root.
    let length = unsafe { libc::syscall(libc::SYS_getcwd, path.as_mut_ptr(), path.len()) };
    if length < 0 {
        return Err(last());
    }
    Ok(path[0] == b'/')
}

/// Closes all descriptors from `first` on except `but`, which is sorted in place.
pub(crate) fn close_from(first: u32, but: &mut [u32]) {
    let close = |first: u32, last: u32| {
        if first <= last {
            // SAFETY: the closed descriptors are not used any more: the process becomes another program, or ends
            // without closing anything.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    };
    but.sort_unstable();
    let mut first = first;
    for &kept in &*but {
        if kept >= first {
            if kept > 0 {
                close(first, kept - 1);
            }
            first = kept.saturating_add(1);
        }
    }
    close(first, u32::MAX);
}

/// Sets the host name of a UTS namespace.
pub(crate) fn set_host_name(name: &CStr) -> Result<()> {
    // SAFETY: the name has the given length.
    let result = unsafe { libc::sethostname(name.as_ptr(), name.to_bytes().len()) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Sets the domain name of a UTS namespace.
pub(crate) fn set_domain_name(name: &CStr) -> Result<()> {
    // SAFETY: the name has the given length.
    let result = unsafe { libc::setdomainname(name.as_ptr(), name.to_bytes().len()) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Enters a new cgroup namespace, whose root is the caller's cgroup.
pub(crate) fn unshare_cgroup() -> Result<()> {
    // SAFETY: a cgroup namespace changes nothing that memory safety rests on.
    let result = unsafe { libc::unshare(libc::CLONE_NEWCGROUP) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Enters a new IPC namespace.
pub(crate) fn unshare_ipc() -> Result<()> {
    // SAFETY: an IPC namespace changes nothing that memory safety rests on.
    let result = unsafe { libc::unshare(libc::CLONE_NEWIPC) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Brings the loopback interface of the network namespace up.
pub(crate) fn bring_up_loopback() -> Result<()> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: all zeroes is a valid request; the name is shorter than its place.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as c_char;
    request.ifr_name[1] = b'o' as c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    // SAFETY: the request lives across the call, which reads name and flags.
    let result = unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as libc::Ioctl,
            &raw const request,
        )
    };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Leaves the caller's mount namespace for a copy of it.
pub(crate) fn unshare_mounts() -> Result<()> {
    // SAFETY: a mount namespace changes nothing that memory safety rests on.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Makes a time namespace for the children of this process.
pub(crate) fn unshare_time() -> Result<()> {
    // SAFETY: a time namespace changes nothing that memory safety rests on.
    let result = unsafe { libc::unshare(0x80) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Closes a descriptor of the parent in its child, where its owner is never dropped.
pub(crate) fn close_now(fd: BorrowedFd<'_>) {
    // SAFETY: this is the child, which ends or executes without using it.
    unsafe { libc::close(fd.as_raw_fd()) };
}

/// Reads the next signal from a signalfd.
pub(crate) fn next_signal(signals: BorrowedFd<'_>) -> Option<i32> {
    let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
    let count = rustix::io::read(signals, &mut info).ok()?;
    // The number of the signal comes first.
    (count == info.len()).then(|| i32::from_ne_bytes([info[0], info[1], info[2], info[3]]))
}

/// Executes the program behind a descriptor; returns only if that fails.
pub(crate) fn execute_fd(program: BorrowedFd<'_>, args: &Image, env: &Image) -> Errno {
    // SAFETY: the path is empty and terminated; both lists end with a null, and their strings live as
    // long as they do.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            args.pointers.as_ptr(),
            env.pointers.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
    }
    last()
}

/// Returns whether a descriptor is inherited from the caller: those of this program are close-on-exec.
pub(crate) fn was_passed_on(fd: u32) -> bool {
    // SAFETY: nothing is done with it but to ask whether it is there.
    let fd = unsafe { BorrowedFd::borrow_raw(fd.cast_signed()) };
    rustix::io::fcntl_getfd(fd).is_ok_and(|flags| !flags.contains(rustix::io::FdFlags::CLOEXEC))
}

/// Returns a copy of a descriptor inherited from the caller; it is not inherited further.
pub(crate) fn passed_on(fd: u32) -> Result<OwnedFd> {
    if !was_passed_on(fd) {
        return Err(Errno::BADF);
    }
    // SAFETY: it is open, and this program has no other owner of it.
    let fd = unsafe { BorrowedFd::borrow_raw(fd.cast_signed()) };
    rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::fcntl_dupfd_cloexec(fd, 3)
}

/// Lets the executed program inherit `count` descriptors.
pub(crate) fn keep_open(first: u32, count: u32) -> Result<()> {
    for fd in first..first + count {
        // SAFETY: these are open, and this program has no owner of them.
        let fd = unsafe { BorrowedFd::borrow_raw(fd as i32) };
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
    }
    Ok(())
}
