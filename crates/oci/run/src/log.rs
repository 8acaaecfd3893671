//! The log: lines in runc's two formats, to a file or to standard error.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::error::{Result, While};
use crate::time::now_in_seconds;

/// The format of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

/// The destination of lines.
#[derive(Debug, Default)]
pub(crate) struct Log {
    file: Option<File>,
    format: Format,
    debug: bool,
}

impl Log {
    /// Opens the log file, and creates it if it is missing.
    pub(crate) fn open(path: Option<PathBuf>, format: Format, debug: bool) -> Result<Self> {
        let open = |path: &PathBuf| {
            OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o644)
                .open(path)
                .doing(|| format!("--log: opening {}", path.display()))
        };
        Ok(Self {
            file: path.as_ref().map(open).transpose()?,
            format,
            debug,
        })
    }

    /// Returns whether errors must also be printed on standard error.
    pub(crate) fn is_a_file(&self) -> bool {
        self.file.is_some()
    }

    /// Logs the failure of a command.
    pub(crate) fn error(&self, message: &str) {
        self.write("error", message);
    }

    /// Logs a problem that was ignored.
    pub(crate) fn warn(&self, message: &str) {
        self.write("warning", message);
    }

    /// Logs a message if `--debug` is set.
    pub(crate) fn debug(&self, message: impl FnOnce() -> String) {
        if self.debug {
            self.write("debug", &message());
        }
    }

    /// Returns whether `--debug` is set.
    pub(crate) fn is_debug(&self) -> bool {
        self.debug
    }

    fn write(&self, level: &str, message: &str) {
        let time = now_in_seconds();
        let quoted = serde_json::Value::from(message).to_string();
        let line = match self.format {
            Format::Json => {
                format!("{{\"level\":\"{level}\",\"msg\":{quoted},\"time\":\"{time}\"}}\n")
            }
            Format::Text => format!("time=\"{time}\" level={level} msg={quoted}\n"),
        };
        // A failure to log cannot be reported.
        let _ = match &self.file {
            Some(file) => (&mut &*file).write_all(line.as_bytes()),
            None => std::io::stderr().write_all(line.as_bytes()),
        };
    }
}
