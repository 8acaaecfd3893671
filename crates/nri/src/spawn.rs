//! Starting a program with a socket as its file 3, as plugins expect it; and taking that socket
//! up in a plugin.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::process::Command;

/// Where a program that we start finds its socket.
const SOCKET: i32 = 3;

/// Has a command's program find `socket` as its file 3.
pub(crate) fn pass_socket(command: &mut Command, socket: OwnedFd) {
    let from = socket.as_raw_fd();
    let place = move || {
        // Held by this closure, so that it is open until the program is started.
        let from = socket.as_raw_fd();
        // SAFETY: both are plain system calls on numbers of files, allowed between fork and
        // exec. Whatever has the number 3 here is ours to replace: this is the child's table.
        let placed = unsafe {
            if from == SOCKET {
                libc::fcntl(from, libc::F_SETFD, 0)
            } else {
                libc::dup2(from, SOCKET)
            }
        };
        if placed < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    };
    tracing::trace!(from, "passing a socket on");
    // SAFETY: the closure makes system calls only; it neither allocates nor locks.
    unsafe {
        command.pre_exec(place);
    }
}

/// The socket that a plugin was started with. There is one, for the first who asks.
pub fn inherited_socket() -> Option<UnixStream> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = std::env::var("NRI_PLUGIN_SOCKET").ok()?;
    let number = number.parse::<i32>().ok().filter(|number| *number > 2)?;
    if TAKEN.swap(true, Ordering::AcqRel) {
        return None;
    }
    // SAFETY: whoever started this program says that the file is open and meant for it, and it
    // is taken once.
    Some(unsafe { UnixStream::from_raw_fd(number) })
}
