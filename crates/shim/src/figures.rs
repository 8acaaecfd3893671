//! What a container uses, as the one tells it who runs it. Where processes are none of the host's, no
//! cgroup there knows.

use std::fmt;

use crate::proto::fields;

const V1: &str = "io.containerd.cgroups.v1.Metrics";
const V2: &str = "io.containerd.cgroups.v2.Metrics";

/// How much is used, now and so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) cpu_ns: u64,
    pub(crate) memory: u64,
    /// Of which this would go first.
    pub(crate) inactive_file: u64,
    pub(crate) rss: u64,
    pub(crate) page_faults: u64,
    pub(crate) major_page_faults: u64,
    pub(crate) processes: u64,
}

/// As the daemon reads it: numbers in this order.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cpu_ns,
            memory,
            inactive_file,
            rss,
            page_faults,
            major_page_faults,
            processes,
        } = self;
        writeln!(
            f,
            "{cpu_ns} {memory} {inactive_file} {rss} {page_faults} {major_page_faults} {processes}"
        )
    }
}

impl Figures {
    /// Of the metrics of a cgroup, as shims answer them; of some other type nothing is known.
    pub(crate) fn of_metrics(kind: &str, metrics: &[u8]) -> Option<Self> {
        // A type may be named by an address.
        match kind.rsplit('/').next() {
            Some(V1) => Self::of_v1(metrics),
            Some(V2) => Self::of_v2(metrics),
            _ => None,
        }
    }

    fn of_v1(metrics: &[u8]) -> Option<Self> {
        let at = |path: &[u32]| number_at(metrics, path);
        Some(Self {
            cpu_ns: at(&[3, 1, 1])?,
            memory: at(&[4, 33, 2])?,
            inactive_file: at(&[4, 30])?,
            rss: at(&[4, 19])?,
            page_faults: at(&[4, 26])?,
            major_page_faults: at(&[4, 27])?,
            processes: at(&[2, 1])?,
        })
    }

    fn of_v2(metrics: &[u8]) -> Option<Self> {
        let at = |path: &[u32]| number_at(metrics, path);
        Some(Self {
            // Microseconds.
            cpu_ns: at(&[2, 1])?.saturating_mul(1000),
            memory: at(&[4, 32])?,
            inactive_file: at(&[4, 13])?,
            rss: at(&[4, 1])?,
            page_faults: at(&[4, 18])?,
            major_page_faults: at(&[4, 19])?,
            processes: at(&[1, 1])?,
        })
    }

    /// Of what `events --stats` prints, as runc does.
    pub(crate) fn of_event(event: &str) -> Option<Self> {
        let event: serde_json::Value = serde_json::from_str(event).ok()?;
        let number = |path: &str| event.pointer(path).and_then(serde_json::Value::as_u64);
        Some(Self {
            cpu_ns: number("/data/cpu/usage/total")?,
            memory: number("/data/memory/usage/usage").unwrap_or(0),
            processes: number("/data/pids/current").unwrap_or(0),
            ..Self::default()
        })
    }
}

/// A number within messages, by the fields that lead to it; 0 is left out there. `None` where one of them is
/// garbled.
fn number_at(message: &[u8], path: &[u32]) -> Option<u64> {
    let (first, rest) = path.split_first()?;
    let mut found = 0;
    for field in fields(message) {
        let field = field?;
        if field.number == *first {
            found = if rest.is_empty() {
                field.as_number()
            } else {
                number_at(field.as_bytes(), rest)?
            };
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::{Figures, V1, V2};
    use crate::proto::Writer;

    fn message(numbers: &[(u32, u64)]) -> Vec<u8> {
        let mut message = Writer::default();
        for &(number, value) in numbers {
            message = message.number(number, value);
        }
        message.done()
    }

    const READ: Figures = Figures {
        cpu_ns: 5000,
        memory: 4096,
        inactive_file: 1024,
        rss: 2048,
        page_faults: 7,
        major_page_faults: 1,
        processes: 3,
    };

    #[test]
    fn both_versions_tell_the_same() {
        let usage = message(&[(1, 8192), (2, 4096)]);
        let memory = Writer::default()
            .number(2, 1)
            .number(19, 2048)
            .number(26, 7)
            .number(27, 1)
            .number(30, 1024)
            .message(33, &usage);
        let cpu = Writer::default().message(1, &message(&[(1, 5000), (2, 9)]));
        let first = Writer::default()
            .message(2, &message(&[(1, 3)]))
            .message(3, &cpu.done())
            .message(4, &memory.done())
            .done();
        assert_eq!(Figures::of_metrics(V1, &first), Some(READ));
        let memory = message(&[(1, 2048), (13, 1024), (18, 7), (19, 1), (32, 4096)]);
        let second = Writer::default()
            .message(1, &message(&[(1, 3)]))
            .message(2, &message(&[(1, 5)]))
            .message(4, &memory)
            .done();
        let named = format!("types.containerd.io/{V2}");
        assert_eq!(Figures::of_metrics(&named, &second), Some(READ));
        assert_eq!(Figures::of_metrics("some.other.Metrics", &second), None);
        assert_eq!(Figures::of_metrics(V1, &first[..first.len() - 1]), None);
        assert_eq!(READ.to_string(), "5000 4096 1024 2048 7 1 3\n");
    }

    #[test]
    fn fuzzed_metrics_do_not_break_the_reader() {
        let example = Writer::default().message(4, &message(&[(32, 4096)]));
        orlop_testkit::Fuzz::new()
            .example(example.done())
            .run(|input| {
                let _ = Figures::of_metrics(V1, input);
                let _ = Figures::of_metrics(V2, input);
            });
    }

    #[test]
    fn events_tell_what_they_have() {
        let event = r#"{"type":"stats","id":"a","data":{"cpu":{"usage":{"total":70,"kernel":0}},
            "memory":{"usage":{"usage":80}},"pids":{"current":2}}}"#;
        let read = Figures::of_event(event).unwrap();
        assert_eq!((read.cpu_ns, read.memory, read.processes), (70, 80, 2));
        assert_eq!(Figures::of_event("{}"), None);
    }
}
