//! Log lines as systemd's journal takes them from a stream: a syslog priority,
//! then the words. Time and process are the journal's to add.

use std::fmt::{self, Write};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// Writes `<priority>module: span{fields}: message`.
pub(super) struct JournalLine;

impl<S, N> FormatEvent<S, N> for JournalLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        let metadata = event.metadata();
        write!(line, "{}: ", metadata.target())?;
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            write!(line, "{}", span.name())?;
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>()
                && !fields.is_empty()
            {
                write!(line, "{{{fields}}}")?;
            }
            line.push_str(": ");
        }
        context.format_fields(Writer::new(&mut line), event)?;
        // One event is one entry, whatever a client put into a name.
        let line = line.replace('\n', "\\n");
        writeln!(writer, "<{}>{line}", priority(*metadata.level()))
    }
}

/// The priorities of syslog(3).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}
