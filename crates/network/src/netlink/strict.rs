//! Socket options that reduce the kernel's answers: strictly filtered lists, and errors without the request.
#![allow(
    unsafe_code,
    reason = "no safe wrapper knows these options of netlink sockets"
)]

use std::os::fd::{AsRawFd as _, BorrowedFd};

// <linux/netlink.h>
const NETLINK_CAP_ACK: libc::c_int = 10;
const NETLINK_GET_STRICT_CHK: libc::c_int = 12;

/// Limits lists to the requested objects. Without this option (and on kernels before 4.20, which refuse it) the
/// kernel returns all addresses of all interfaces, whichever interface the request names.
pub(super) fn be_strict(socket: BorrowedFd<'_>) -> bool {
    set(socket, NETLINK_GET_STRICT_CHK)
}

/// Omits the request from error messages: the request of a large transaction would not fit into the socket. Kernels
/// before 4.3 refuse this option.
pub(super) fn be_brief(socket: BorrowedFd<'_>) -> bool {
    set(socket, NETLINK_CAP_ACK)
}

fn set(socket: BorrowedFd<'_>, option: libc::c_int) -> bool {
    let on: libc::c_int = 1;
    // SAFETY: the value is an int that lives across the call, and its size is passed.
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
