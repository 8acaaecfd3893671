//! The log of this program, which containerd reads.

use std::io::Write as _;

/// Logs a problem that cannot be reported in a response.
pub(crate) fn log(line: &str) {
    let _ = writeln!(std::io::stderr(), "orlop: {line}");
}
