//! Containers that were released through their start fifo and have not confirmed it yet.

use std::path::PathBuf;

use rustix::io::Errno;

use crate::reactor::Watch;

/// A container that was released and has not confirmed it yet.
#[derive(Debug)]
pub(crate) struct LettingGo {
    pub(crate) fifo: Watch,
    pub(crate) path: PathBuf,
}

/// State of the start fifo.
pub(crate) enum Word {
    /// The process has written to the fifo and goes on.
    Gone,
    /// The process has not opened the fifo yet.
    Nothing,
    /// Reading failed: the process will not confirm.
    Never(Errno),
}

impl LettingGo {
    /// Reads the current state of the fifo.
    pub(crate) fn listen(&self) -> Word {
        match rustix::io::read(&self.fifo, &mut [0; 16]) {
            // No writer; if one came and went, the reactor reports it.
            Ok(0) | Err(Errno::AGAIN | Errno::INTR) => Word::Nothing,
            Ok(_) => Word::Gone,
            Err(error) => Word::Never(error),
        }
    }
}
