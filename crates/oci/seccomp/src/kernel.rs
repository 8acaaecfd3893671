//! `seccomp(2)`: features of the kernel, and the installation of a program.
#![allow(
    unsafe_code,
    reason = "neither rustix nor std has seccomp(2), and the listener that it returns is a new descriptor"
)]

use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use rustix::io::Errno;

use crate::instruction::Instruction;

/// Operations of `seccomp(2)` (`linux/seccomp.h`).
const SET_MODE_FILTER: libc::c_ulong = 1;
const GET_ACTION_AVAIL: libc::c_ulong = 2;

/// Returns whether the kernel supports an action (`SECCOMP_RET_*`).
pub(crate) fn has_action(answer: u32) -> bool {
    // SAFETY: the kernel reads a word from the address of a local variable.
    unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAIL, 0, &raw const answer) == 0 }
}

/// Returns whether the kernel supports this combination of flags. It checks the flags before the program, so EFAULT for
/// the missing program means that they are valid.
pub fn supports(flags: u32) -> bool {
    let none = ptr::null::<libc::sock_fprog>();
    // SAFETY: the kernel copies from user memory, and answers EFAULT for a null pointer.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SET_MODE_FILTER,
            libc::c_ulong::from(flags),
            none,
        )
    };
    result < 0 && last_error() == Errno::FAULT
}

/// Filters the calls of this thread from now on. Allocates nothing and takes no lock.
pub(crate) fn install(program: &[Instruction], flags: u32) -> rustix::io::Result<Option<OwnedFd>> {
    let Ok(length) = u16::try_from(program.len()) else {
        return Err(Errno::INVAL);
    };
    let program = libc::sock_fprog {
        len: length,
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: `Instruction` has the layout of `sock_filter`; the kernel reads `length` of them, which
    // are borrowed, and writes to none.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SET_MODE_FILTER,
            libc::c_ulong::from(flags),
            &raw const program,
        )
    };
    if result < 0 {
        return Err(last_error());
    }
    if flags & NEW_LISTENER == 0 {
        return Ok(None);
    }
    // SAFETY: with this flag the result is a new descriptor without another owner.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(result as libc::c_int) }))
}

/// `SECCOMP_FILTER_FLAG_NEW_LISTENER`.
pub(crate) const NEW_LISTENER: u32 = 1 << 3;

fn last_error() -> Errno {
    std::io::Error::last_os_error()
        .raw_os_error()
        .map_or(Errno::INVAL, Errno::from_raw_os_error)
}

const _: () = assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>());
const _: () = assert!(align_of::<Instruction>() == align_of::<libc::sock_filter>());
