//! Output of a command for containerd.

use std::io::Write as _;

use crate::error::{Result, unknown};

/// Writes the response to standard output.
pub(crate) fn print(answer: &[u8]) -> Result<()> {
    let mut out = std::io::stdout();
    out.write_all(answer)
        .and_then(|()| out.flush())
        .map_err(|error| unknown(format!("writing the response to containerd: {error}")))
}
