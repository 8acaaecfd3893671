//! The standard output, buffered.

use std::io::{self, BufWriter, StdoutLock, Write};

/// The standard output. What is left in it is written when it is dropped; commands flush it
/// themselves so that an error is seen.
pub(in crate::commands) fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// Writes text at once, for commands that are no client's.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    Ok(write_all(text)?)
}

/// Writes text at once.
pub(in crate::commands) fn write_all(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
