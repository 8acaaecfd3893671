//! A unix socket in the file system: made, taken over from the dead, removed.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

/// Connections that may wait to be accepted; the kernel has a cap of its own.
const BACKLOG: i32 = 1024;

/// Who may use the socket: its owner and its group.
const MODE: u32 = 0o660;

/// Listens at the path, owned by the group, from the first moment for nobody else.
pub(super) fn listen_at(
    path: &Path,
    group: Option<u32>,
) -> anyhow::Result<(UnixListener, OwnPath)> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(|| {
            format!(
                "cannot create the directory of the socket {}",
                path.display()
            )
        })?;
    }
    clear_the_way(path)?;
    let listener = bound(path, group)
        .with_context(|| format!("cannot listen on unix://{}", path.display()))?;
    let own = OwnPath::of(path).context("the socket just made is gone")?;
    Ok((listener, own))
}

/// Removes what a daemon that is no more left behind, and nothing else.
fn clear_the_way(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot look at {shown}")),
        Ok(found) if !found.file_type().is_socket() => {
            bail!("{shown} exists and is no socket: move it away or listen elsewhere")
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => bail!("something already answers on unix://{shown}: stop it or listen elsewhere"),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).with_context(|| format!("cannot remove the stale socket {shown}"))
        }
        Err(error) => Err(error)
            .with_context(|| format!("cannot tell whether anything answers on unix://{shown}")),
    }
}

fn bound(path: &Path, group: Option<u32>) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Linux gives the file the mode of the socket it is bound from, less the umask:
    // there is no moment in which others could connect.
    fchmod(&socket, Mode::from_raw_mode(MODE))?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    if group.is_some() {
        chown(path, None, group)?;
    }
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// The file of a socket made here, removed with it.
#[derive(Debug)]
pub(super) struct OwnPath {
    path: PathBuf,
    identity: Identity,
}

impl OwnPath {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            identity: identity(path)?,
        })
    }
}

impl Drop for OwnPath {
    fn drop(&mut self) {
        // Another daemon may have taken the path over in the meantime.
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Device, inode and time of change: a number alone is given anew at once.
type Identity = (u64, u64, i64, i64);

fn identity(path: &Path) -> io::Result<Identity> {
    fs::symlink_metadata(path)
        .map(|found| (found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_for_owner_and_group_and_goes_with_its_listener() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made/a.sock");
        let (listener, own) = listen_at(&path, None).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            MODE
        );
        UnixStream::connect(&path).unwrap();
        drop((listener, own));
        assert!(!path.exists());
    }

    #[test]
    fn only_a_socket_that_nobody_answers_on_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let living = UnixListener::bind(&path).unwrap();
        let error = listen_at(&path, None).unwrap_err();
        assert!(error.to_string().contains("already answers"), "{error:#}");
        drop(living);
        assert!(path.exists());
        listen_at(&path, None).unwrap();
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("precious");
        fs::write(&path, "words").unwrap();
        assert!(
            listen_at(&path, None)
                .unwrap_err()
                .to_string()
                .contains("no socket")
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "words");
    }

    #[test]
    fn a_successor_s_socket_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let (first, own) = listen_at(&path, None).unwrap();
        drop(first);
        let (_second, _own) = listen_at(&path, None).unwrap();
        drop(own);
        UnixStream::connect(&path).unwrap();
    }
}
