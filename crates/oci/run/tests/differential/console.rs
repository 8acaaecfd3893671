//! The terminal that a runtime hands out at a socket.

use std::fs::File;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// A socket at which one terminal is awaited.
pub(crate) struct Console {
    path: PathBuf,
    terminal: Receiver<File>,
}

impl Console {
    pub(crate) fn new(path: &Path) -> Self {
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).expect("bind the console's socket");
        let (sender, terminal) = channel();
        std::thread::spawn(move || {
            if let Ok((stream, _)) = listener.accept()
                && let Some(file) = receive(&stream)
            {
                let _ = sender.send(file);
            }
        });
        Self {
            path: path.to_owned(),
            terminal,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The terminal, if one came.
    pub(crate) fn terminal(&self, limit: Duration) -> Option<File> {
        self.terminal.recv_timeout(limit).ok()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // Whoever still waits there is let go.
        let _ = std::os::unix::net::UnixStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
    }
}

fn receive(stream: &std::os::unix::net::UnixStream) -> Option<File> {
    let mut bytes = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(&mut bytes)];
    recvmsg(
        stream,
        &mut buffers,
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )
    .ok()?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut files) = message {
            return files.next().map(File::from);
        }
    }
    None
}
