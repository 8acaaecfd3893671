//! Selection of the format of log lines.

use std::io::{IsTerminal, stderr};

use rustix::fs::fstat;

use crate::config::values::LogFormat;

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Text for people, with colours.
    Terminal,
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
    /// For the systemd journal, which adds time and unit itself.
    Journal,
}

/// Returns the requested format, or the one that suits standard error.
pub(super) fn choose(asked: LogFormat, journal: Option<(u64, u64)>) -> Format {
    let terminal = stderr().is_terminal();
    match asked {
        LogFormat::Text | LogFormat::Auto if terminal => Format::Terminal,
        LogFormat::Text => Format::Text,
        LogFormat::Journal => Format::Journal,
        LogFormat::Auto if is_journal(journal) => Format::Journal,
        LogFormat::Json | LogFormat::Auto => Format::Json,
    }
}

/// Checks whether standard error is the journal. `JOURNAL_STREAM` is inherited by processes with other output, so it
/// counts only if it names the file of standard error.
fn is_journal(stream: Option<(u64, u64)>) -> bool {
    let Some(stream) = stream else { return false };
    fstat(stderr()).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == stream)
}
