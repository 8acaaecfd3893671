//! Keeps each event on one line, so that a client cannot forge log entries with line breaks in a name.

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Wraps a format and keeps its output on one line.
pub(super) struct OneLine<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for OneLine<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0
            .format_event(context, Writer::new(&mut line), event)?;
        let mut parts = line.trim_end_matches('\n').split(['\n', '\r']);
        writer.write_str(parts.next().unwrap_or_default())?;
        for part in parts {
            write!(writer, "\\n{part}")?;
        }
        writer.write_char('\n')
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::SubscriberExt;

    use super::super::journal::JournalLine;
    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged<F>(format: F) -> String
    where
        F: FormatEvent<tracing_subscriber::Registry, fmt::format::DefaultFields>
            + Send
            + Sync
            + 'static,
    {
        let memory = Memory::default();
        let writer = memory.clone();
        let layer = fmt::layer()
            .with_ansi(false)
            .event_format(OneLine(format))
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let _span = tracing::info_span!("rpc", id = %"a\nb").entered();
            tracing::warn!(name = %"x\n<3>forged", "two\nlines");
        });
        String::from_utf8(memory.0.lock().clone()).unwrap()
    }

    #[test]
    fn a_line_break_in_a_name_forges_no_entry() {
        for text in [logged(fmt::format()), logged(JournalLine)] {
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(
                text.contains("two\\nlines") && text.contains("x\\n<3>forged"),
                "{text}"
            );
        }
    }

    #[test]
    fn the_journal_reads_the_priority_first() {
        let text = logged(JournalLine);
        assert!(text.starts_with("<4>"), "{text}");
        assert!(text.contains(": rpc{id=a\\nb}: "), "{text}");
    }
}
