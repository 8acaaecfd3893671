//! Asking the kernel for less: to take a request for a list at its word, and not to repeat what it was told.
#![allow(
    unsafe_code,
    reason = "no safe wrapper knows these options of netlink sockets"
)]

use std::os::fd::{AsRawFd as _, BorrowedFd};

// <linux/netlink.h>
const NETLINK_CAP_ACK: libc::c_int = 10;
const NETLINK_GET_STRICT_CHK: libc::c_int = 12;

/// From now on lists are of what was asked for only: without this (and on kernels before 4.20, which
/// refuse it) all addresses of all interfaces come, whichever interface was named.
pub(super) fn be_strict(socket: BorrowedFd<'_>) -> bool {
    set(socket, NETLINK_GET_STRICT_CHK)
}

/// From now on a refusal does not contain what is refused: what is refused of a large transaction would
/// not fit into the socket. Kernels before 4.3 refuse that.
pub(super) fn be_brief(socket: BorrowedFd<'_>) -> bool {
    set(socket, NETLINK_CAP_ACK)
}

fn set(socket: BorrowedFd<'_>, option: libc::c_int) -> bool {
    let on: libc::c_int = 1;
    // SAFETY: the value is an int that lives across the call, and its size is told.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_NETLINK,
            option,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    done == 0
}
