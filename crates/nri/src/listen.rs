//! The socket for plugins that somebody else starts.

use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::nri::Nri;
use crate::register::register;

/// Plugins that register at the same time; more wait to be accepted.
const REGISTERING: usize = 16;

/// What was bound, to be removed at the end if it is still ours.
#[derive(Debug)]
pub(crate) struct Bound {
    path: PathBuf,
    which: (u64, u64, i64, i64),
}

/// Binds the socket, for root alone. Blocks.
pub(crate) fn bind(path: &Path) -> io::Result<(std::os::unix::net::UnixListener, Bound)> {
    if let Some(parent) = path.parent() {
        std::fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(parent)?;
    }
    remove_stale(path)?;
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    let metadata = std::fs::symlink_metadata(path)?;
    let bound = Bound {
        path: path.to_owned(),
        which: identity(&metadata),
    };
    Ok((listener, bound))
}

/// A socket that nobody listens on is left from an earlier run; another runtime's is not touched.
fn remove_stale(path: &Path) -> io::Result<()> {
    let metadata = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "it is no socket"));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(
            ErrorKind::AddrInUse,
            "another runtime listens there",
        )),
        Err(_) => std::fs::remove_file(path),
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let own =
            std::fs::symlink_metadata(&self.path).is_ok_and(|found| identity(&found) == self.which);
        if own {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Numbers of inodes are given out again at once; the time of the last change tells them apart.
fn identity(found: &std::fs::Metadata) -> (u64, u64, i64, i64) {
    (found.dev(), found.ino(), found.ctime(), found.ctime_nsec())
}

/// Takes plugins in as they come.
pub(crate) async fn accept(nri: Nri, listener: UnixListener) {
    let registering = Arc::new(Semaphore::new(REGISTERING));
    loop {
        let Ok(permit) = Arc::clone(&registering).acquire_owned().await else {
            return;
        };
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::warn!(%error, "accepting an NRI plugin");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let task = nri.clone();
        nri.track(async move {
            let _permit = permit;
            if let Err(problem) = take_in(&task, socket).await {
                tracing::warn!(problem, "an NRI plugin connected and does not take part");
            }
        });
    }
}

async fn take_in(nri: &Nri, socket: UnixStream) -> Result<(), String> {
    // Whoever was quicker than the socket's permissions.
    let peer = socket.peer_cred().map_err(|error| error.to_string())?;
    let own = std::fs::metadata("/proc/self").map_or(0, |own| own.uid());
    if peer.uid() != 0 && peer.uid() != own {
        return Err(format!("user {} may not be a plugin", peer.uid()));
    }
    let plugin = register(nri, socket, None).await?;
    nri.take_in(plugin).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/nri.sock");
        let (listener, bound) = bind(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        let (_listener, again) = bind(&path).unwrap();
        drop(bound);
        assert!(path.exists(), "it is another's by now");
        drop(again);
        assert!(!path.exists());
        std::fs::write(&path, "").unwrap();
        assert_eq!(bind(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
}
