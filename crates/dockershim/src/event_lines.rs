//! Parser of the engine's event stream: one JSON event per line.

use crate::docker::types::Event;

/// The maximum length of an event; longer ones are skipped. An event contains the labels of its container, including
/// those of its image.
const LONGEST: usize = 1 << 20;

/// The state of the event parser.
#[derive(Debug, Default)]
pub(crate) struct EventLines {
    /// The incomplete last line.
    rest: Vec<u8>,
    /// Whether the current line has exceeded the limit.
    too_long: bool,
}

/// The events in one chunk.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) events: Vec<Event>,
    /// Whether at least one event could not be parsed.
    pub(crate) missed: bool,
}

impl EventLines {
    /// Parses the next chunk.
    pub(crate) fn read(&mut self, piece: &[u8]) -> Heard {
        let mut heard = Heard::default();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let is_end = part.ends_with(b"\n");
            self.too_long |= self.rest.len() + part.len() > LONGEST;
            if self.too_long {
                self.rest = Vec::new();
            } else {
                self.rest.extend_from_slice(part);
            }
            if !is_end {
                continue;
            }
            let line = std::mem::take(&mut self.rest);
            let was_too_long = std::mem::take(&mut self.too_long);
            match serde_json::from_slice(&line) {
                Ok(event) => heard.events.push(event),
                Err(_) if line.trim_ascii().is_empty() && !was_too_long => {}
                Err(_) => heard.missed = true,
            }
        }
        heard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, label: &str) -> String {
        let attributes = serde_json::json!({ "label": label });
        let actor = serde_json::json!({ "ID": id, "Attributes": attributes });
        format!(
            "{}\n",
            serde_json::json!({ "Action": "die", "Actor": actor })
        )
    }

    fn ids(heard: &Heard) -> Vec<&str> {
        let events = heard.events.iter();
        events.map(|event| event.actor.id.as_str()).collect()
    }

    #[test]
    fn events_come_out_however_the_stream_is_cut() {
        let text = [line("a", ""), "\n".into(), line("b", "x"), line("c", "")].concat();
        for step in [1, 7, text.len()] {
            let mut lines = EventLines::default();
            let mut all = Vec::new();
            for piece in text.as_bytes().chunks(step) {
                let heard = lines.read(piece);
                assert!(!heard.missed);
                all.extend(ids(&heard).into_iter().map(str::to_owned));
            }
            assert_eq!(all, ["a", "b", "c"]);
        }
    }

    #[test]
    fn an_event_too_long_or_unreadable_is_missed_and_the_next_one_is_heard() {
        let long = line("long", &"x".repeat(LONGEST));
        for bad in [long.as_str(), "{]\n"] {
            let text = [line("a", ""), bad.to_owned(), line("b", "")].concat();
            for step in [4096, text.len()] {
                let mut lines = EventLines::default();
                let (mut all, mut missed) = (Vec::new(), false);
                for piece in text.as_bytes().chunks(step) {
                    let heard = lines.read(piece);
                    missed |= heard.missed;
                    all.extend(ids(&heard).into_iter().map(str::to_owned));
                    assert!(lines.rest.len() <= LONGEST);
                }
                assert_eq!(all, ["a", "b"]);
                assert!(missed);
            }
        }
    }
}
