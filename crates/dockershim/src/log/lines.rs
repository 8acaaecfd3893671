//! Parser of the engine's log for conversion to the CRI's format.
//!
//! The engine prefixes every stored piece with its time: `TIME SPACE CONTENT`. Without a terminal each piece comes in
//! a frame; without a newline at its end, the line continues in the next piece. With a terminal all pieces come in one
//! stream. A piece then ends at a newline or at the length at which the engine splits lines.

use bytes::{Buf as _, Bytes, BytesMut};
use orlop_cri_api::log::Stream;

use crate::clock;
use crate::docker::{Frames, Source};

/// A timestamped piece of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// Nanoseconds since the epoch.
    pub(super) time: i64,
    pub(super) stream: Stream,
    pub(super) content: Bytes,
    /// Whether the line continues in the next piece.
    pub(super) partial: bool,
}

/// The length at which the engine splits a line (its logger's buffer).
const CUT: usize = 16 * 1024;
/// Maximum length of a timestamp: RFC 3339 with nanoseconds has 30 characters in UTC, 35 otherwise.
const LONGEST_TIME: usize = 40;

/// Parser of the engine's log.
#[derive(Debug)]
pub(super) struct Lines {
    frames: Frames,
    terminal: Option<BytesMut>,
}

impl Lines {
    pub(super) fn new(terminal: bool) -> Self {
        Self {
            frames: Frames::new(terminal),
            terminal: terminal.then(BytesMut::new),
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        match &mut self.terminal {
            Some(buffer) => buffer.extend_from_slice(bytes),
            None => self.frames.feed(bytes),
        }
    }

    /// Returns the next complete piece.
    pub(super) fn next(&mut self) -> Result<Option<Piece>, String> {
        if let Some(buffer) = &mut self.terminal {
            return Ok(of_terminal(buffer));
        }
        loop {
            let next = self.frames.next().map_err(|error| error.to_string())?;
            let Some((source, frame)) = next else {
                return Ok(None);
            };
            let stream = match source {
                Source::Stdout => Stream::Stdout,
                Source::Stderr => Stream::Stderr,
                Source::System => {
                    return Err(String::from_utf8_lossy(&frame).trim().to_owned());
                }
            };
            if let Some(piece) = of_frame(stream, frame) {
                return Ok(Some(piece));
            }
        }
    }
}

fn of_frame(stream: Stream, mut frame: Bytes) -> Option<Piece> {
    let (time, length) = time_of(&frame)?;
    frame.advance(length);
    let partial = !frame.ends_with(b"\n");
    if !partial {
        frame.truncate(frame.len() - 1);
    }
    Some(Piece {
        time,
        stream,
        content: frame,
        partial,
    })
}

fn of_terminal(buffer: &mut BytesMut) -> Option<Piece> {
    loop {
        let Some((time, length)) = time_of(buffer) else {
            // A stream that does not start with a timestamp is not the start of a piece: skip to the next line.
            if buffer.len() < LONGEST_TIME {
                return None;
            }
            let end = memchr(buffer)?;
            buffer.advance(end + 1);
            continue;
        };
        let rest = &buffer[length..];
        let end = memchr(rest);
        // A longer line has been split, and the rest starts with a timestamp again.
        let is_cut = match end {
            Some(end) => end > CUT,
            None => rest.len() > CUT + LONGEST_TIME,
        };
        let (taken, partial) = if is_cut && time_of(&rest[CUT..]).is_some() {
            (CUT, true)
        } else {
            (end?, false)
        };
        buffer.advance(length);
        let content = buffer.split_to(taken).freeze();
        if !partial {
            buffer.advance(1);
        }
        return Some(Piece {
            time,
            stream: Stream::Stdout,
            content,
            partial,
        });
    }
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

/// Parses the timestamp at the start; returns it and its length with the space.
fn time_of(bytes: &[u8]) -> Option<(i64, usize)> {
    let beginning = &bytes[..bytes.len().min(LONGEST_TIME)];
    let space = beginning.iter().position(|byte| *byte == b' ')?;
    let time = clock::parse(std::str::from_utf8(&beginning[..space]).ok()?);
    (time > 0).then_some((time, space + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: &str = "2026-01-02T03:04:05.000000006Z";

    fn all(lines: &mut Lines) -> Vec<(Vec<u8>, bool)> {
        let mut all = Vec::new();
        while let Some(piece) = lines.next().unwrap() {
            assert_eq!(piece.time % 1_000_000_000, 6);
            all.push((piece.content.to_vec(), piece.partial));
        }
        all
    }

    fn frame(number: u8, content: &str) -> Vec<u8> {
        let text = format!("{TIME} {content}");
        let mut frame = vec![number, 0, 0, 0];
        frame.extend((text.len() as u32).to_be_bytes());
        frame.extend(text.bytes());
        frame
    }

    #[test]
    fn a_frame_is_a_line_or_goes_on() {
        let mut lines = Lines::new(false);
        lines.feed(&frame(1, "whole\n"));
        lines.feed(&frame(1, "half"));
        lines.feed(&frame(2, "\n"));
        assert_eq!(
            all(&mut lines),
            [
                (b"whole".to_vec(), false),
                (b"half".to_vec(), true),
                (Vec::new(), false)
            ]
        );
    }

    #[test]
    fn the_engines_own_words_are_an_error() {
        let mut lines = Lines::new(false);
        let mut bytes = vec![3, 0, 0, 0, 0, 0, 0, 4];
        bytes.extend(b"oops");
        lines.feed(&bytes);
        assert_eq!(lines.next().unwrap_err(), "oops");
    }

    #[test]
    fn a_terminals_lines_are_found_however_they_are_cut() {
        let text = format!("{TIME} one\r\n{TIME} two three\r\n");
        for cut in 1..text.len() {
            let mut lines = Lines::new(true);
            lines.feed(&text.as_bytes()[..cut]);
            let mut found = all(&mut lines);
            lines.feed(&text.as_bytes()[cut..]);
            found.extend(all(&mut lines));
            assert_eq!(
                found,
                [(b"one\r".to_vec(), false), (b"two three\r".to_vec(), false)]
            );
        }
    }

    #[test]
    fn a_long_line_of_a_terminal_was_cut_by_the_engine() {
        let long = "x".repeat(CUT);
        let text = format!("{TIME} {long}{TIME} rest\r\n{TIME} {long}{TIME} {long}");
        let mut lines = Lines::new(true);
        lines.feed(text.as_bytes());
        let found = all(&mut lines);
        assert_eq!(found[0], (long.clone().into_bytes(), true));
        assert_eq!(found[1], (b"rest\r".to_vec(), false));
        assert_eq!(found[2], (long.clone().into_bytes(), true));
        assert_eq!(found.len(), 3);
        // A program that writes a long line at once.
        let mut lines = Lines::new(true);
        lines.feed(format!("{TIME} {long}y\r\n").as_bytes());
        assert_eq!(
            all(&mut lines),
            [(format!("{long}y\r").into_bytes(), false)]
        );
    }
}
