//! Exit statuses, in messages and in a container's exit record.

use std::fmt;
use std::str::FromStr;

use crate::message::messages;

messages! {
    /// The exit status of a process.
    struct ExitStatus {
        /// The exit code; for a process killed by a signal, 128 plus the signal's number.
        1 code: u32,
        /// The signal that killed it; 0 for none.
        2 signal: u32,
        /// Whether the OOM killer killed a process in the container.
        3 oom: bool,
        /// When the exit was noticed, in nanoseconds since the epoch.
        4 time_ns: u64,
    }
}

/// An exit record that cannot be read, for example one truncated by a crash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("exit record is damaged: {0:?}")]
pub struct ExitRecordError(String);

/// The text of an exit record: `code=… signal=… oom=… time_ns=…`, and a line end, which marks it as complete.
impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            code,
            signal,
            oom,
            time_ns,
        } = self;
        let oom = u8::from(*oom);
        writeln!(f, "code={code} signal={signal} oom={oom} time_ns={time_ns}")
    }
}

impl FromStr for ExitStatus {
    type Err = ExitRecordError;

    fn from_str(text: &str) -> Result<Self, ExitRecordError> {
        parse(text).ok_or_else(|| ExitRecordError(text.chars().take(200).collect()))
    }
}

fn parse(text: &str) -> Option<ExitStatus> {
    let mut status = ExitStatus::default();
    let mut timed = false;
    for part in text.strip_suffix('\n')?.split_ascii_whitespace() {
        let (name, value) = part.split_once('=')?;
        match name {
            "code" => status.code = value.parse().ok()?,
            "signal" => status.signal = value.parse().ok()?,
            "oom" => status.oom = value.parse::<u8>().ok()? != 0,
            "time_ns" => {
                status.time_ns = value.parse().ok()?;
                timed = true;
            }
            _ => {}
        }
    }
    timed.then_some(status)
}

#[cfg(test)]
mod tests {
    use super::ExitStatus;

    #[test]
    fn record_reads_back_and_a_torn_one_is_refused() {
        let status = ExitStatus {
            code: 137,
            signal: 9,
            oom: true,
            time_ns: 1_700_000_000_123_456_789,
        };
        let text = status.to_string();
        assert_eq!(
            text,
            "code=137 signal=9 oom=1 time_ns=1700000000123456789\n"
        );
        assert_eq!(text.parse(), Ok(status));
        for cut in 0..text.len() {
            assert!(text[..cut].parse::<ExitStatus>().is_err(), "cut at {cut}");
        }
    }
}
