//! Starting a program with a socket as its file 3, as plugins expect it; and taking that socket
//! up in a plugin.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::process::Command;

/// Where a program that we start finds its socket.
const SOCKET: i32 = 3;

/// Has a command's program find `socket` as its file 3.
pub(crate) fn pass_socket(command: &mut Command, socket: OwnedFd) -> io::Result<()> {
    // Whoever starts the program opens a pipe to hear from it why that failed, and may get the
    // number 3 for it if that is free. Now it is not: it is this copy's, or was taken before.
    let socket = fcntl_dupfd_cloexec(&socket, SOCKET)?;
    let holder = file_at(SOCKET)?;
    let place = move || {
        // Held by this closure, so that it is open until the program is started.
        let from = socket.as_raw_fd();
        if from != SOCKET && file_at(SOCKET)? != holder {
            // Its holder has closed it meanwhile: it may be that pipe.
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        // SAFETY: both are plain system calls on numbers of files, allowed between fork and
        // exec. What has the number 3 here is ours to replace: this is the child's table.
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
    // SAFETY: the closure makes system calls only; it neither allocates nor locks.
    unsafe {
        command.pre_exec(place);
    }
    Ok(())
}

/// The file that has a number: its device and inode.
fn file_at(number: i32) -> io::Result<(u64, u64)> {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel writes no more than it has room for.
    if unsafe { libc::fstat(number, found.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it succeeded, so it is filled in.
    let found = unsafe { found.assume_init() };
    Ok((found.st_dev, found.st_ino))
}

/// Another number for a file, not below `least`.
fn fcntl_dupfd_cloexec(file: &OwnedFd, least: i32) -> io::Result<OwnedFd> {
    // SAFETY: the number is of a file that is open, and nothing is done to it.
    let number = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::io::Read as _;
    use std::process::Stdio;

    use super::*;

    #[tokio::test]
    async fn a_program_finds_its_socket_and_says_why_it_cannot_be_started() {
        let (mut own, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo hello >&3"]).stdin(Stdio::null());
        pass_socket(&mut command, theirs.into()).unwrap();
        assert!(command.status().await.unwrap().success());
        drop(command);
        let mut said = String::new();
        own.read_to_string(&mut said).unwrap();
        assert_eq!(said, "hello\n");

        let (_own, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new("/no/such/program");
        pass_socket(&mut command, theirs.into()).unwrap();
        let error = command.spawn().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
    }
}
