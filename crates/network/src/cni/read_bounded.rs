//! Reads configuration and result files with a size limit.

use std::io;
use std::path::Path;

/// Maximum size of a configuration file.
const MAX_FILE: u64 = 1 << 20;

/// Reads a configuration file; refuses one that is too large.
pub(crate) fn read_bounded(file: &Path) -> io::Result<Vec<u8>> {
    orlop_fs::read_file(file, MAX_FILE)
}
