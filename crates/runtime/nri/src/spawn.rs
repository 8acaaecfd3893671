//! Passes a socket to a plugin's program as file descriptor 3, and takes it over in the plugin.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::process::Command;

/// File descriptor of the socket in a plugin's process.
const SOCKET: i32 = 3;

/// Passes `socket` to a command's program as file descriptor 3.
pub(crate) fn pass_socket(command: &mut Command, socket: OwnedFd) -> io::Result<()> {
    // Starting the program opens a pipe for errors, which could get the descriptor 3 if it were free. This duplicate,
    // or an earlier descriptor, occupies it.
    let socket = fcntl_dupfd_cloexec(&socket, SOCKET)?;
    let holder = file_at(SOCKET)?;
    let place = move || {
        // Owned by this closure, so that it stays open until the program is started.
        let from = socket.as_raw_fd();
        if from != SOCKET && file_at(SOCKET)? != holder {
            // The descriptor was closed and reused meanwhile, possibly for that pipe.
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        // SAFETY: both are plain system calls on descriptor numbers, allowed between fork and exec. This is the child's
        // table, so the descriptor 3 can be replaced.
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

/// Returns the device and inode of an open file.
fn file_at(number: i32) -> io::Result<(u64, u64)> {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel writes at most the size of the buffer.
    if unsafe { libc::fstat(number, found.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the buffer is initialized.
    let found = unsafe { found.assume_init() };
    Ok((found.st_dev, found.st_ino))
}

/// Duplicates a descriptor to a number that is at least `least`.
fn fcntl_dupfd_cloexec(file: &OwnedFd, least: i32) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is open, and the call does not change it.
    let number = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this new descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Takes the socket that a plugin was started with. Returns it only once.
pub fn inherited_socket() -> Option<UnixStream> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = std::env::var("NRI_PLUGIN_SOCKET").ok()?;
    let number = number.parse::<i32>().ok().filter(|number| *number > 2)?;
    if TAKEN.swap(true, Ordering::AcqRel) {
        return None;
    }
    // SAFETY: the parent process declares that this descriptor is open and meant for this program, and it is taken only
    // once.
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
