//! Named pipes (FIFOs).

use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::error::{Error, Result};

/// Creates a FIFO unless it exists.
pub(crate) fn make_fifo(path: &Path) -> Result<()> {
    let made = mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
    match made {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(errno) => Err(Error::file("creating the FIFO", path)(errno.into())),
    }
}
