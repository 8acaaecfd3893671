//! Chooses how log lines look.

use std::io::{IsTerminal, stderr};

use rustix::fs::fstat;

use crate::config::values::LogFormat;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// For eyes, with colours.
    Terminal,
    /// For eyes.
    Text,
    /// One JSON object per line.
    Json,
    /// For systemd's journal, which adds time and unit itself.
    Journal,
}

/// The format asked for, or the one that suits what standard error is.
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

/// `JOURNAL_STREAM` is inherited by processes whose output goes elsewhere: it
/// counts only where it names the very file that standard error is.
fn is_journal(stream: Option<(u64, u64)>) -> bool {
    let Some(stream) = stream else { return false };
    fstat(stderr()).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == stream)
}
