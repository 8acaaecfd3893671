//! Asking the kernel to take a request for a list at its word.
#![allow(
    unsafe_code,
    reason = "no safe wrapper knows this option of netlink sockets"
)]

use std::os::fd::{AsRawFd as _, BorrowedFd};

// <linux/netlink.h>
const NETLINK_GET_STRICT_CHK: libc::c_int = 12;

/// From now on lists are of what was asked for only: without this (and on kernels before 4.20, which
/// refuse it) all addresses of all interfaces come, whichever interface was named.
pub(super) fn be_strict(socket: BorrowedFd<'_>) -> bool {
    let on: libc::c_int = 1;
    // SAFETY: the value is an int that lives across the call, and its size is told.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_NETLINK,
            NETLINK_GET_STRICT_CHK,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    done == 0
}
