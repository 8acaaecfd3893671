//! Output files of a checkpoint. The container determines their size, so they leave the disk its reserve,
//! and writing ends when no caller waits for the checkpoint.

use std::io::{self, Write};
use std::os::fd::AsFd;

use orlop_fs::Room;
use tokio_util::sync::CancellationToken;

/// A file that is being written.
pub struct Output<W> {
    file: W,
    room: Room,
    stop: CancellationToken,
}

impl<W> Output<W> {
    /// Writes to the file until `stop` is cancelled.
    pub fn new(file: W, stop: &CancellationToken) -> Self {
        Self {
            file,
            room: Room::default(),
            stop: stop.clone(),
        }
    }
}

impl<W: Write + AsFd> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.room.content(bytes.len() as u64, &self.file)?;
        if self.stop.is_cancelled() {
            return Err(io::Error::other("the client cancelled the checkpoint"));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_ends_when_nobody_waits() {
        let stop = CancellationToken::new();
        let mut output = Output::new(tempfile::tempfile().unwrap(), &stop);
        output.write_all(b"some").unwrap();
        stop.cancel();
        let error = output.write_all(b"more").unwrap_err();
        assert!(error.to_string().contains("client cancelled"), "{error}");
    }
}
