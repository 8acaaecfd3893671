//! Socket for plugins that others start.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

use orlop_listen::{AcceptLoop, Activity, SocketFile, listen_at};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use crate::nri::Nri;
use crate::register::register;

/// Number of concurrent registrations; more connections wait to be accepted.
const REGISTERING: usize = 16;

/// Binds the socket, which only root can access. Blocks.
pub(crate) fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    if let Some(parent) = path.parent() {
        DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(parent)?;
    }
    let (listener, file) = listen_at(path, 0o600, None)?;
    Ok((UnixListener::from_std(listener)?, file))
}

/// Accepts and registers plugins until `stop` is canceled.
pub(crate) async fn accept(nri: Nri, listener: UnixListener, stop: CancellationToken) {
    let accepting = AcceptLoop::new("accepting an NRI plugin", REGISTERING);
    let register = |socket, activity: Activity| {
        // Registration has its own timeout.
        let (nri, in_progress) = (nri.clone(), activity.request());
        async move {
            let _in_progress = in_progress;
            if let Err(problem) = take_in(&nri, socket).await {
                tracing::warn!(
                    problem,
                    "an NRI plugin connected but could not be registered"
                );
            }
        }
    };
    accepting.run(listener, stop, register).await;
}

async fn take_in(nri: &Nri, socket: UnixStream) -> Result<(), String> {
    // Rejects peers that connected before the socket's permissions were set.
    let peer = socket.peer_cred().map_err(|error| error.to_string())?;
    let own = std::fs::metadata("/proc/self").map_or(0, |own| own.uid());
    if peer.uid() != 0 && peer.uid() != own {
        return Err(format!(
            "user {} is not allowed to connect as a plugin",
            peer.uid()
        ));
    }
    let plugin = register(nri, socket, None).await?;
    nri.take_in(plugin).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::ErrorKind;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/nri.sock");
        let (listener, bound) = bind(&path).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path) & 0o777, 0o600);
        assert_eq!(mode(path.parent().unwrap()) & 0o777, 0o700);
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
