//! Framing on a plugin's socket: ttrpc messages, split into fragments of two multiplexed connections.
//!
//! ```text
//!   piece:    connection u32 │ length u32 │ bytes of that connection's stream
//!   message:  length u32 │ stream u32 │ type u8 │ flags u8 │ Request or Response
//! ```
//!
//! All numbers are big endian. A message may span several fragments.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

/// Size limit of a message without its header, as defined by the protocol.
pub(crate) const MAX_MESSAGE: usize = 4 << 20;

const PIECE_HEADER: usize = 8;
const MESSAGE_HEADER: usize = 10;
const MAX_PIECE: usize = MESSAGE_HEADER + MAX_MESSAGE;

/// Size of the first fragment of a message.
///
/// The common implementation reads through a buffer of this size and loses what does not fit. So the head of a message
/// must come in a fragment of at most this size, while the rest may be one fragment of any size. Many small fragments
/// would overrun its queue.
const FIRST_PIECE: usize = 4096;

/// The two connections on a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Calls from the runtime to the plugin.
    ToPlugin,
    /// Calls from the plugin to the runtime.
    ToRuntime,
}

impl Line {
    fn number(self) -> u32 {
        match self {
            Self::ToPlugin => 1,
            Self::ToRuntime => 2,
        }
    }
}

/// Type of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A call.
    Request,
    /// The response to a call.
    Response,
    /// A part of a stream, which NRI does not use.
    Data,
}

/// A ttrpc message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) line: Line,
    /// Number that connects a response to its call.
    pub(crate) stream: u32,
    pub(crate) kind: Kind,
    pub(crate) payload: Bytes,
}

/// Reason why received bytes are not a valid message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rubbish {
    #[error("a fragment of {0} bytes; the limit is {MAX_PIECE}")]
    Piece(usize),
    #[error("a message of {0} bytes; the limit is {MAX_MESSAGE}")]
    Message(usize),
    #[error("a message of the unknown type {0}")]
    Kind(u8),
}

/// Encodes a message.
pub(crate) fn encode(message: &Message) -> Bytes {
    let payload = &message.payload;
    let mut text = BytesMut::with_capacity(MESSAGE_HEADER + payload.len());
    text.put_u32(payload.len() as u32);
    text.put_u32(message.stream);
    text.put_u8(match message.kind {
        Kind::Request => 1,
        Kind::Response => 2,
        Kind::Data => 3,
    });
    text.put_u8(0);
    text.put_slice(payload);

    let (first, rest) = text.split_at(text.len().min(FIRST_PIECE));
    let mut out = BytesMut::with_capacity(2 * PIECE_HEADER + text.len());
    for piece in [first, rest] {
        if !piece.is_empty() {
            out.put_u32(message.line.number());
            out.put_u32(piece.len() as u32);
            out.put_slice(piece);
        }
    }
    out.freeze()
}

/// Incremental decoder of messages.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    socket: BytesMut,
    to_plugin: BytesMut,
    to_runtime: BytesMut,
}

impl Decoder {
    /// Returns the buffer for bytes from the socket.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.socket
    }

    /// Returns the next complete message, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, Rubbish> {
        loop {
            for line in [Line::ToPlugin, Line::ToRuntime] {
                if let Some(message) = take_message(line, self.stream(line))? {
                    return Ok(Some(message));
                }
            }
            if !self.take_piece()? {
                return Ok(None);
            }
        }
    }

    fn stream(&mut self, line: Line) -> &mut BytesMut {
        match line {
            Line::ToPlugin => &mut self.to_plugin,
            Line::ToRuntime => &mut self.to_runtime,
        }
    }

    fn take_piece(&mut self) -> Result<bool, Rubbish> {
        let Some((line, length)) = two_numbers(&self.socket) else {
            return Ok(false);
        };
        let length = length as usize;
        if length > MAX_PIECE {
            return Err(Rubbish::Piece(length));
        }
        if self.socket.len() < PIECE_HEADER + length {
            return Ok(false);
        }
        self.socket.advance(PIECE_HEADER);
        let piece = self.socket.split_to(length);
        // Ignore fragments of unknown connections.
        for own in [Line::ToPlugin, Line::ToRuntime] {
            if own.number() == line {
                let stream = self.stream(own);
                if stream.is_empty() {
                    *stream = piece;
                } else {
                    stream.unsplit(piece);
                }
                break;
            }
        }
        Ok(true)
    }
}

fn take_message(line: Line, stream: &mut BytesMut) -> Result<Option<Message>, Rubbish> {
    let Some((length, number)) = two_numbers(stream) else {
        return Ok(None);
    };
    let length = length as usize;
    // Checked from the header, before a message of that size is buffered.
    if length > MAX_MESSAGE {
        return Err(Rubbish::Message(length));
    }
    if stream.len() < MESSAGE_HEADER + length {
        return Ok(None);
    }
    let kind = match stream[8] {
        1 => Kind::Request,
        2 => Kind::Response,
        3 => Kind::Data,
        other => return Err(Rubbish::Kind(other)),
    };
    stream.advance(MESSAGE_HEADER);
    Ok(Some(Message {
        line,
        stream: number,
        kind,
        payload: stream.split_to(length).freeze(),
    }))
}

fn two_numbers(bytes: &[u8]) -> Option<(u32, u32)> {
    let number = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_be_bytes);
    Some((number(bytes.get(..4)?)?, number(bytes.get(4..8)?)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn message(line: Line, stream: u32, size: usize) -> Message {
        Message {
            line,
            stream,
            kind: Kind::Request,
            payload: vec![7; size].into(),
        }
    }

    fn decode(bytes: &[u8], step: usize) -> Result<Vec<Message>, Rubbish> {
        let mut decoder = Decoder::default();
        let mut messages = Vec::new();
        for bytes in bytes.chunks(step) {
            decoder.buffer().put_slice(bytes);
            while let Some(message) = decoder.next()? {
                messages.push(message);
            }
        }
        Ok(messages)
    }

    #[test]
    fn messages_survive_any_cutting() {
        let sent = [
            message(Line::ToPlugin, 1, 0),
            message(Line::ToRuntime, 3, 5),
            message(Line::ToPlugin, 5, 4086),
            message(Line::ToRuntime, 7, 4087),
            message(Line::ToPlugin, 9, 20_000),
        ];
        let bytes: Vec<u8> = sent.iter().flat_map(encode).collect();
        for step in [1, 3, 4096, bytes.len()] {
            assert_eq!(decode(&bytes, step).unwrap(), sent, "in steps of {step}");
        }
    }

    #[test]
    fn the_known_bytes_of_a_message() {
        let mut one = message(Line::ToPlugin, 1, 0);
        one.payload = Bytes::from_static(b"ab");
        let expected = [
            0, 0, 0, 1, 0, 0, 0, 12, 0, 0, 0, 2, 0, 0, 0, 1, 1, 0, b'a', b'b',
        ];
        assert_eq!(encode(&one)[..], expected);
    }

    #[test]
    fn a_large_message_has_a_small_head() {
        let bytes = encode(&message(Line::ToPlugin, 1, MAX_MESSAGE));
        assert_eq!(bytes[4..8], 4096_u32.to_be_bytes());
        let rest = (MAX_MESSAGE + MESSAGE_HEADER - 4096) as u32;
        assert_eq!(bytes[8 + 4096 + 4..8 + 4096 + 8], rest.to_be_bytes());
        assert_eq!(decode(&bytes, bytes.len()).unwrap().len(), 1);
    }

    #[test]
    fn foreign_connections_are_passed_over() {
        let mut bytes = vec![0, 0, 0, 9, 0, 0, 0, 3, 1, 2, 3];
        bytes.extend(encode(&message(Line::ToRuntime, 1, 1)));
        assert_eq!(decode(&bytes, 1).unwrap().len(), 1);
    }

    #[test]
    fn what_is_too_large_or_unknown_is_refused_at_its_head() {
        let large = [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(decode(&large, 8).unwrap_err(), Rubbish::Piece(0xffff_ffff));
        let large = [0, 0, 0, 1, 0, 0, 0, 8, 0, 0x50, 0, 0, 0, 0, 0, 1];
        assert_eq!(decode(&large, 1).unwrap_err(), Rubbish::Message(0x50_0000));
        let unknown = [0, 0, 0, 1, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 1, 9, 0];
        assert_eq!(decode(&unknown, 1).unwrap_err(), Rubbish::Kind(9));
    }

    /// Any input gives a message, needs more bytes, or is rejected; buffers never grow without limit.
    #[test]
    fn noise_never_panics_and_never_grows() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut noise = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..2000 {
            let mut bytes: Vec<u8> = encode(&message(Line::ToPlugin, 1, 40)).to_vec();
            for _ in 0..=noise() % 6 {
                let at = noise() as usize % bytes.len();
                bytes[at] = noise() as u8;
            }
            let mut decoder = Decoder::default();
            for _ in 0..20 {
                decoder.buffer().put_slice(&bytes);
                if !matches!(decoder.next(), Ok(Some(_))) {
                    break;
                }
            }
            assert!(decoder.to_plugin.len() + decoder.to_runtime.len() < 2 * MAX_PIECE);
        }
    }
}
