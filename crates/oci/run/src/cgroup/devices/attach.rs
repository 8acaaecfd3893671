//! Attaches a device program to a cgroup with bpf(2).
#![allow(unsafe_code, reason = "bpf is wrapped nowhere")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::{Errno, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::program::Instruction;

/// The name of the failed call, and its error.
pub(super) type Failed = (&'static str, Errno);

/// Maximum number of programs that the kernel attaches to one cgroup.
const MOST: u32 = 64;

/// Commands, kinds and flags of `linux/bpf.h`.
const PROG_LOAD: libc::c_long = 5;
const PROG_ATTACH: libc::c_long = 8;
const PROG_DETACH: libc::c_long = 9;
const PROG_GET_FD_BY_ID: libc::c_long = 13;
const PROG_QUERY: libc::c_long = 16;
const CGROUP_DEVICE_PROGRAM: u32 = 15;
const CGROUP_DEVICE: u32 = 6;
const ALLOW_MULTI: u32 = 2;
const REPLACE: u32 = 4;

/// Attaches this program to a cgroup in place of all earlier device programs.
pub(super) fn replace(
    cgroup: impl AsFd,
    program: &[Instruction],
) -> std::result::Result<(), Failed> {
    let cgroup = cgroup.as_fd();
    let before = attached(cgroup).map_err(|errno| ("BPF_PROG_QUERY", errno))?;
    let new = load(program).map_err(|errno| ("BPF_PROG_LOAD", errno))?;
    let failed = |errno| ("BPF_PROG_ATTACH", errno);
    if let [old] = &before[..] {
        match attach(cgroup, new.as_fd(), Some(old.as_fd())) {
            // Kernels before 5.6 cannot replace a program.
            Err(Errno::INVAL) => {}
            attached => return attached.map_err(failed),
        }
    }
    attach(cgroup, new.as_fd(), None).map_err(failed)?;
    for old in &before {
        detach(cgroup, old.as_fd()).map_err(|errno| ("BPF_PROG_DETACH", errno))?;
    }
    Ok(())
}

/// The part of `union bpf_attr` for loading.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
}

fn load(program: &[Instruction]) -> Result<OwnedFd> {
    let mut attr = Load {
        kind: CGROUP_DEVICE_PROGRAM,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        ..Load::default()
    };
    let mut load = || {
        // SAFETY: the structure is what the command reads; what it points to lives as long.
        let fd = unsafe { bpf(PROG_LOAD, &mut attr) }?;
        // SAFETY: the command answers with a new descriptor.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    match load() {
        // Kernels before 5.11 charge programs as locked memory. The container inherits the limit.
        Err(Errno::PERM) => {
            let before = getrlimit(Resource::Memlock);
            let none = Rlimit {
                current: None,
                maximum: None,
            };
            setrlimit(Resource::Memlock, none).map_err(|_| Errno::PERM)?;
            let loaded = load();
            let _ = setrlimit(Resource::Memlock, before);
            loaded
        }
        loaded => loaded,
    }
}

/// The part of `union bpf_attr` for attaching and detaching.
#[repr(C)]
#[derive(Default)]
struct Attach {
    cgroup: u32,
    program: u32,
    kind: u32,
    flags: u32,
    replaced: u32,
}

fn attach(
    cgroup: BorrowedFd<'_>,
    program: BorrowedFd<'_>,
    instead: Option<BorrowedFd<'_>>,
) -> Result<()> {
    let mut attr = Attach {
        cgroup: cgroup.as_raw_fd() as u32,
        program: program.as_raw_fd() as u32,
        kind: CGROUP_DEVICE,
        flags: ALLOW_MULTI | if instead.is_some() { REPLACE } else { 0 },
        replaced: instead.map_or(0, |it| it.as_raw_fd() as u32),
    };
    // SAFETY: the structure is what the command reads.
    unsafe { bpf(PROG_ATTACH, &mut attr) }.map(drop)
}

fn detach(cgroup: BorrowedFd<'_>, program: BorrowedFd<'_>) -> Result<()> {
    let mut attr = Attach {
        cgroup: cgroup.as_raw_fd() as u32,
        program: program.as_raw_fd() as u32,
        kind: CGROUP_DEVICE,
        ..Attach::default()
    };
    // SAFETY: the structure is what the command reads.
    unsafe { bpf(PROG_DETACH, &mut attr) }.map(drop)
}

/// The part of `union bpf_attr` for queries. Kernels from 6.17 on write its last field regardless of the given size.
#[repr(C)]
#[derive(Default)]
struct Query {
    cgroup: u32,
    kind: u32,
    query: u32,
    flags: u32,
    ids: u64,
    count: u32,
    _padding: u32,
    flags_of_each: u64,
    links: u64,
    flags_of_links: u64,
    revision: u64,
}

/// Returns the programs currently attached, except those that a security module hides from us: they can only forbid
/// more.
fn attached(cgroup: BorrowedFd<'_>) -> Result<Vec<OwnedFd>> {
    let mut ids = [0u32; MOST as usize];
    let mut attr = Query {
        cgroup: cgroup.as_raw_fd() as u32,
        kind: CGROUP_DEVICE,
        ids: ids.as_mut_ptr() as u64,
        count: MOST,
        ..Query::default()
    };
    // SAFETY: the structure is what the command reads and writes; the kernel attaches no more than 64
    // programs to a cgroup, and is told how many there is room for.
    unsafe { bpf(PROG_QUERY, &mut attr) }?;
    let mut found = Vec::new();
    for id in ids.into_iter().take(attr.count as usize) {
        let mut attr = [id, 0, 0, 0];
        // SAFETY: the command reads one number, and what follows is nothing.
        match unsafe { bpf(PROG_GET_FD_BY_ID, &mut attr) } {
            // SAFETY: the command answers with a new descriptor.
            Ok(fd) => found.push(unsafe { OwnedFd::from_raw_fd(fd) }),
            // Hidden from us, or detached meanwhile.
            Err(Errno::PERM | Errno::ACCESS | Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(found)
}

/// # Safety
///
/// The structure has to be the part of `union bpf_attr` that the command reads, and its pointers valid.
unsafe fn bpf<T>(command: libc::c_long, attr: &mut T) -> Result<i32> {
    let mut tries = 30;
    loop {
        // SAFETY: the caller guarantees it; the size of the structure is passed.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command,
                std::ptr::from_mut(attr),
                size_of::<T>(),
            )
        };
        if result >= 0 {
            return Ok(result as i32);
        }
        // SAFETY: every thread has its errno.
        let errno = Errno::from_raw_os_error(unsafe { *libc::__errno_location() });
        // The verifier gives up when a signal arrives.
        if errno != Errno::AGAIN || tries == 0 {
            return Err(errno);
        }
        tries -= 1;
    }
}
