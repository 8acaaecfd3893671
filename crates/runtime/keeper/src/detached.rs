//! A container that was detached and whose process has not confirmed it yet.

use std::path::PathBuf;

use rustix::io::Errno;

use crate::reactor::Watch;

/// A container that was let go and has not said so yet.
#[derive(Debug)]
pub(crate) struct LettingGo {
    pub(crate) fifo: Watch,
    pub(crate) path: PathBuf,
}

/// What a fifo says.
pub(crate) enum Word {
    /// The process goes on.
    Gone,
    /// It has not opened the fifo yet.
    Nothing,
    /// It will not.
    Never(Errno),
}

impl LettingGo {
    /// What the fifo says by now.
    pub(crate) fn listen(&self) -> Word {
        match rustix::io::read(&self.fifo, &mut [0; 16]) {
            // No writer; of one that came and went the reactor tells.
            Ok(0) | Err(Errno::AGAIN | Errno::INTR) => Word::Nothing,
            Ok(_) => Word::Gone,
            Err(error) => Word::Never(error),
        }
    }
}
