//! Setup of the log and changes of its level at run time.

#[cfg(feature = "node")]
use std::fs::File;
use std::io;

use anyhow::Context;
use parking_lot::Mutex;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

use super::format::{Format, choose};
use super::journal::JournalLine;
use super::one_line::OneLine;
use crate::config::Log;
use crate::config::values::LevelFilter;

/// Starts logging to standard error, which may be connected to the journal.
pub(crate) fn start(log: &Log, journal: Option<(u64, u64)>) -> anyhow::Result<Levels> {
    let format = choose(log.format, journal);
    start_to(log, format, BoxMakeWriter::new(io::stderr))
}

/// Starts logging to a file, for a command that uses the terminal itself.
#[cfg(feature = "node")]
pub(crate) fn start_in_file(log: &Log, file: File) -> anyhow::Result<Levels> {
    // tracing can write through this lock.
    start_to(
        log,
        Format::Text,
        BoxMakeWriter::new(std::sync::Mutex::new(file)),
    )
}

fn start_to(log: &Log, format: Format, writer: BoxMakeWriter) -> anyhow::Result<Levels> {
    let (filter, handle) = reload::Layer::new(log.level.targets());
    let registry = tracing_subscriber::registry().with(filter);
    let lines = fmt::layer().with_writer(writer);
    let started = match format {
        Format::Terminal => {
            let line = OneLine(fmt::format().with_ansi(true));
            registry
                .with(lines.with_ansi(true).event_format(line))
                .try_init()
        }
        Format::Text => {
            let line = OneLine(fmt::format().with_ansi(false));
            registry
                .with(lines.with_ansi(false).event_format(line))
                .try_init()
        }
        Format::Journal => {
            let line = OneLine(JournalLine);
            registry
                .with(lines.with_ansi(false).event_format(line))
                .try_init()
        }
        Format::Json => registry
            .with(lines.json().flatten_event(true).with_current_span(false))
            .try_init(),
    };
    started.context("cannot set up logging")?;
    Ok(Levels {
        handle,
        chosen: Mutex::new(log.level.clone()),
    })
}

/// Handle that changes the log level.
#[derive(Debug)]
pub(crate) struct Levels {
    handle: reload::Handle<Targets, Registry>,
    chosen: Mutex<LevelFilter>,
}

impl Levels {
    /// Replaces the filter.
    pub(crate) fn set(&self, level: &LevelFilter) -> anyhow::Result<()> {
        let mut chosen = self.chosen.lock();
        self.handle
            .reload(level.targets())
            .context("cannot change the log level")?;
        chosen.clone_from(level);
        Ok(())
    }

    /// Returns the active filter.
    pub(crate) fn get(&self) -> LevelFilter {
        self.chosen.lock().clone()
    }
}
