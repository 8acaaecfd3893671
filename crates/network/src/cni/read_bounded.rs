//! Reads configuration and result files with a size limit.

use std::io;
use std::path::Path;

/// No configuration file is larger than this.
const MAX_FILE: u64 = 1 << 20;

/// Reads a configuration file, refusing one that is too large.
pub(crate) fn read_bounded(file: &Path) -> io::Result<Vec<u8>> {
    orlop_fs::read_file(file, MAX_FILE)
}
