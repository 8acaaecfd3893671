//! A unix socket in the file system: create it, take it over from a dead process, remove it.

use std::fs::{self, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

/// Limit of connections that wait to be accepted; the kernel has its own limit.
pub(crate) const BACKLOG: i32 = 1024;

/// Listens at the path, with this mode and group. At no time can others connect. Replaces the socket of a dead
/// listener, but no other file.
pub fn listen_at(path: &Path, mode: u32, group: Option<u32>) -> Result<(UnixListener, SocketFile)> {
    let shown = path.display();
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(|e| {
            because(
                &e,
                &format!("cannot create the directory of the socket {shown}"),
            )
        })?;
    }
    clear_the_way(path)?;
    let listener = bound(path, mode, group)
        .map_err(|e| because(&e, &format!("cannot listen on unix://{shown}")))?;
    let own = SocketFile::of(path)
        .map_err(|e| because(&e, &format!("the new socket {shown} was removed")))?;
    Ok((listener, own))
}

/// Removes the socket of a dead listener, but no other file.
fn clear_the_way(path: &Path) -> Result<()> {
    let shown = path.display();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(because(&error, &format!("cannot inspect {shown}"))),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("{shown} exists and is not a socket; move it or choose another address"),
            ));
        }
        Ok(_) => {}
    }
    match has_listener(path) {
        Ok(true) => Err(Error::new(
            ErrorKind::AddrInUse,
            format!(
                "another process already listens on unix://{shown}; stop it or choose another \
                 address"
            ),
        )),
        Ok(false) => fs::remove_file(path)
            .map_err(|e| because(&e, &format!("cannot remove the stale socket {shown}"))),
        Err(error) => Err(because(
            &error,
            &format!("cannot check whether another process listens on unix://{shown}"),
        )),
    }
}

fn has_listener(path: &Path) -> Result<bool> {
    match connect(&stream_socket()?, &SocketAddrUnix::new(path)?) {
        // Its queue is full: a blocking socket would wait until it is not.
        Ok(()) | Err(Errno::AGAIN) => Ok(true),
        Err(Errno::CONNREFUSED) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn bound(path: &Path, mode: u32, group: Option<u32>) -> Result<UnixListener> {
    let socket = stream_socket()?;
    // Linux gives the file the mode of the socket it is bound from, less the umask, so at no moment can others connect.
    fchmod(&socket, Mode::from_raw_mode(mode))?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    if group.is_some() {
        chown(path, None, group)?;
    }
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn stream_socket() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok(socket)
}

pub(crate) fn because(error: &Error, doing: &str) -> Error {
    Error::new(error.kind(), format!("{doing}: {error}"))
}

/// The file of a socket created here; dropping this removes it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: Identity,
}

impl SocketFile {
    fn of(path: &Path) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            identity: identity(path)?,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another listener may have taken the path over in the meantime.
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Device, inode and change time: an inode number alone may be reused at once.
type Identity = (u64, u64, i64, i64);

fn identity(path: &Path) -> Result<Identity> {
    fs::symlink_metadata(path)
        .map(|found| (found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )]
    use std::collections::BTreeSet;
    use std::os::unix::net::{UnixDatagram, UnixStream};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const MODE: u32 = 0o660;

    #[test]
    fn a_socket_is_for_owner_and_group_and_goes_with_its_listener() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made/a.sock");
        let (listener, own) = listen_at(&path, MODE, None).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            MODE
        );
        UnixStream::connect(&path).unwrap();
        drop((listener, own));
        assert!(!path.exists());
    }

    #[test]
    fn there_is_no_moment_in_which_others_may_connect() {
        let dir = tempfile::tempdir().unwrap();
        let (path, over) = (dir.path().join("a.sock"), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut modes = BTreeSet::new();
                while !over.load(Ordering::Relaxed) {
                    if let Ok(found) = fs::metadata(&path) {
                        modes.insert(found.permissions().mode() & 0o777);
                    }
                }
                modes
            });
            for _ in 0..2000 {
                drop(bound(&path, MODE, None).unwrap());
                fs::remove_file(&path).unwrap();
            }
            over.store(true, Ordering::Relaxed);
            let modes = looking.join().unwrap();
            let wider = modes.iter().find(|mode| *mode & !MODE != 0);
            assert_eq!(wider, None, "for a moment others could connect: {modes:?}");
        });
    }

    #[test]
    fn only_a_socket_that_nobody_answers_on_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let living = UnixListener::bind(&path).unwrap();
        let error = listen_at(&path, MODE, None).unwrap_err();
        assert!(error.to_string().contains("already listens"), "{error:#}");
        drop(living);
        assert!(path.exists());
        listen_at(&path, MODE, None).unwrap();
    }

    #[test]
    fn one_that_is_too_busy_to_answer_is_neither_waited_for_nor_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let busy = stream_socket().unwrap();
        let address = SocketAddrUnix::new(&path).unwrap();
        bind(&busy, &address).unwrap();
        listen(&busy, 0).unwrap();
        let mut waiting = vec![stream_socket().unwrap()];
        while connect(waiting.last().unwrap(), &address) == Ok(()) {
            waiting.push(stream_socket().unwrap());
        }
        let error = listen_at(&path, MODE, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse, "{error}");
        assert!(path.exists());
    }

    #[test]
    fn another_kind_of_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let _living = UnixDatagram::bind(&path).unwrap();
        let error = listen_at(&path, MODE, None).unwrap_err();
        assert!(error.to_string().contains("cannot check"), "{error}");
        assert!(path.exists());
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("precious");
        fs::write(&path, "words").unwrap();
        assert!(
            listen_at(&path, MODE, None)
                .unwrap_err()
                .to_string()
                .contains("not a socket")
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "words");
    }

    #[test]
    fn a_successor_s_socket_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let (first, own) = listen_at(&path, MODE, None).unwrap();
        drop(first);
        let (_second, _own) = listen_at(&path, MODE, None).unwrap();
        drop(own);
        UnixStream::connect(&path).unwrap();
    }
}
