//! Decoder of the multiplexed streams of a container.
//!
//! Without a terminal each frame has a header of eight bytes: the stream's number, three zeros, the frame's length.
//! With a terminal there is one stream and no header.

use bytes::{Buf as _, Bytes, BytesMut};

/// The stream that a frame belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The standard output, or the single stream of a terminal.
    Stdout,
    /// The standard error.
    Stderr,
    /// An error message of the engine itself.
    System,
}

/// Decoder of frames.
#[derive(Debug)]
pub(crate) struct Frames {
    terminal: bool,
    buffer: BytesMut,
}

/// The reason why a stream cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[error("the engine's stream contains an invalid frame: {0}")]
pub(crate) struct BadFrame(String);

const HEADER: usize = 8;
/// The maximum frame size; the engine's frames have 16 or 32 KiB.
const LARGEST: usize = 16 << 20;

impl Frames {
    /// Creates a decoder for a stream with headers, or without them for a terminal.
    pub(crate) fn new(terminal: bool) -> Self {
        Self {
            terminal,
            buffer: BytesMut::new(),
        }
    }

    /// Appends bytes of the stream.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete frame.
    pub(crate) fn next(&mut self) -> Result<Option<(Source, Bytes)>, BadFrame> {
        if self.terminal {
            let all = self.buffer.split().freeze();
            return Ok((!all.is_empty()).then_some((Source::Stdout, all)));
        }
        let Some(header) = self.buffer.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let source = match header[0] {
            0 | 1 => Source::Stdout,
            2 => Source::Stderr,
            3 => Source::System,
            other => return Err(BadFrame(format!("unknown stream number {other}"))),
        };
        let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]) as usize;
        if length > LARGEST {
            return Err(BadFrame(format!("a length of {length} bytes")));
        }
        if self.buffer.len() < HEADER + length {
            self.buffer.reserve(HEADER + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(HEADER);
        Ok(Some((source, self.buffer.split_to(length).freeze())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_found_however_they_are_cut() {
        let mut stream = vec![1, 0, 0, 0, 0, 0, 0, 2, b'h', b'i', 2, 0, 0, 0, 0, 0, 0, 0];
        stream.extend([2, 0, 0, 0, 0, 0, 0, 1, b'!']);
        for cut in 1..stream.len() {
            let mut frames = Frames::new(false);
            let mut found = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                frames.feed(part);
                while let Some((source, bytes)) = frames.next().unwrap() {
                    found.push((source, bytes.to_vec()));
                }
            }
            assert_eq!(
                found,
                [
                    (Source::Stdout, b"hi".to_vec()),
                    (Source::Stderr, Vec::new()),
                    (Source::Stderr, b"!".to_vec())
                ]
            );
        }
    }

    #[test]
    fn nonsense_is_refused_before_it_takes_memory() {
        for bad in [[9, 0, 0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 255, 0, 0, 0]] {
            let mut frames = Frames::new(false);
            frames.feed(&bad);
            assert!(frames.next().is_err());
        }
    }

    #[test]
    fn a_terminal_has_one_stream() {
        let mut frames = Frames::new(true);
        frames.feed(&[1, 0, 0]);
        let (source, bytes) = frames.next().unwrap().unwrap();
        assert_eq!((source, &bytes[..]), (Source::Stdout, &[1, 0, 0][..]));
        assert!(frames.next().unwrap().is_none());
    }
}
