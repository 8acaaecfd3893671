//! Repair of requests whose `:authority` is the path of the socket.
//!
//! gRPC's Go library up to version 1.53 sent the path of a unix socket as `:authority`: kubelets up to 1.27 send
//! `/run/orlop/orlop.sock`. Its C library, used by Python, C++, Ruby and PHP, still sends the path percent-encoded:
//! `run%2Forlop%2Forlop.sock`. Neither is a valid authority, and the HTTP/2 library ends each such request
//! (`PROTOCOL_ERROR`) before any handler sees it. This module replaces slashes and percent signs in the value by dots
//! while it is read. Nothing uses the value. A dot is as long as either character, in plain text and in the Huffman
//! code (RFC 7541, appendix B), so both sides keep the same header tables.
//!
//! ```text
//!  preface ──► frame's head ──► payload passes ──► frame's head …
//!                  └─ HEADERS: the payload is completed and repaired before it is handed on
//! ```

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// `PRI * HTTP/2.0…` (RFC 9113, 3.4).
const PREFACE: usize = 24;
/// Length of a frame header (RFC 9113, 4.1).
const HEAD: usize = 9;
/// The frame type HEADERS.
const HEADERS: u8 = 1;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// The server refuses larger frames.
const LARGEST: usize = 16 << 10;

/// `:authority` in the static table (RFC 7541, appendix A).
const AUTHORITY: usize = 1;

/// Reader state of one client.
#[derive(Debug)]
pub(super) struct Reading {
    at: At,
    /// Repaired bytes to hand on, and how many of them are handed on.
    mended: Vec<u8>,
    given: usize,
    /// The received part of the payload of a HEADERS frame.
    held: Vec<u8>,
}

#[derive(Debug)]
enum At {
    /// This many bytes pass unchanged.
    Passing(usize),
    /// Received part of a frame header, and its length.
    Head([u8; HEAD], usize),
    /// Start of the payload of a HEADERS frame, with its length and flags.
    Headers { length: usize, flags: u8 },
}

impl Reading {
    pub(super) fn new() -> Self {
        Self {
            at: At::Passing(PREFACE),
            mended: Vec::new(),
            given: 0,
            held: Vec::new(),
        }
    }

    /// Reads repaired bytes from `source`.
    pub(super) fn poll_read<S: AsyncRead + Unpin>(
        &mut self,
        source: &mut S,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.given == self.mended.len() {
            (self.mended, self.given) = (Vec::new(), 0);
            if self.held.is_empty() {
                let before = buffer.filled().len();
                ready!(Pin::new(&mut *source).poll_read(context, buffer))?;
                let new = &mut buffer.filled_mut()[before..];
                let through = self.walk(new);
                self.held.extend_from_slice(&new[through..]);
                buffer.set_filled(before + through);
                // An empty read would mean the end of the stream.
                if self.held.is_empty() || through > 0 {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            let mut more = [0; 1024];
            let mut more = ReadBuf::new(&mut more);
            ready!(Pin::new(&mut *source).poll_read(context, &mut more))?;
            self.held.extend_from_slice(more.filled());
            let mut whole = std::mem::take(&mut self.held);
            if more.filled().is_empty() {
                // The stream has ended: the reader gets a truncated frame.
                self.at = At::Passing(usize::MAX);
            }
            let through = self.walk(&mut whole);
            self.held = whole.split_off(through);
            self.mended = whole;
        }
        let rest = &self.mended[self.given..];
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..count]);
        self.given += count;
        Poll::Ready(Ok(()))
    }

    /// Repairs the complete frames in these bytes, and returns how many bytes can be handed on.
    fn walk(&mut self, bytes: &mut [u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let left = bytes.len() - at;
            match &mut self.at {
                At::Passing(more) => {
                    let count = left.min(*more);
                    *more -= count;
                    at += count;
                    if *more == 0 {
                        self.at = At::Head([0; HEAD], 0);
                    }
                }
                At::Head(head, have) => {
                    let count = left.min(HEAD - *have);
                    head[*have..*have + count].copy_from_slice(&bytes[at..at + count]);
                    *have += count;
                    at += count;
                    if *have == HEAD {
                        self.at = after(head);
                    }
                }
                At::Headers { length, .. } if left < *length => break,
                At::Headers { length, flags } => {
                    // Malformed payloads are left to the HTTP/2 library.
                    let _ = mend(&mut bytes[at..at + *length], *flags);
                    at += *length;
                    self.at = At::Head([0; HEAD], 0);
                }
            }
        }
        at
    }
}

/// Returns the state after a frame header.
fn after(head: &[u8; HEAD]) -> At {
    let [high, middle, low, kind, flags, ..] = *head;
    let length = u32::from_be_bytes([0, high, middle, low]) as usize;
    match (length, kind) {
        (0, _) => At::Head([0; HEAD], 0),
        (1..=LARGEST, HEADERS) => At::Headers { length, flags },
        _ => At::Passing(length),
    }
}

/// Repairs the payload of a HEADERS frame (RFC 9113, 6.2); `None` if it is truncated.
fn mend(payload: &mut [u8], flags: u8) -> Option<()> {
    let mut begin = 0;
    let mut padding = 0;
    if flags & PADDED != 0 {
        padding = usize::from(*payload.first()?);
        begin += 1;
    }
    if flags & PRIORITY != 0 {
        begin += 5;
    }
    let end = payload.len().checked_sub(padding)?;
    let block = payload.get_mut(begin..end)?;
    let mut at = 0;
    while at < block.len() {
        // RFC 7541, 6: the kind of the field, and the number of index bits in the first byte.
        let (prefix, is_literal) = match block[at] {
            0x80.. => (7, false),
            0x40.. => (6, true),
            0x20.. => (5, false),
            _ => (4, true),
        };
        let (name, next) = integer(block, at, prefix)?;
        at = next;
        if !is_literal {
            continue;
        }
        if name == 0 {
            at = text(block, at)?.end;
        }
        let is_coded = block.get(at)? & 0x80 != 0;
        let value = text(block, at)?;
        at = value.end;
        if name == AUTHORITY {
            let value = &mut block[value];
            if is_coded {
                without_coded_signs(value);
            } else {
                value
                    .iter_mut()
                    .filter(|byte| matches!(**byte, b'/' | b'%'))
                    .for_each(|byte| *byte = b'.');
            }
        }
    }
    Some(())
}

/// Decodes an integer with a prefix of `prefix` bits (RFC 7541, 5.1). Returns it and the next position.
fn integer(block: &[u8], at: usize, prefix: u32) -> Option<(usize, usize)> {
    let most = (1_usize << prefix) - 1;
    let mut value = usize::from(*block.get(at)?) & most;
    let mut next = at + 1;
    if value < most {
        return Some((value, next));
    }
    for shift in [0, 7, 14] {
        let byte = usize::from(*block.get(next)?);
        next += 1;
        value += (byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value, next));
        }
    }
    // Larger than a frame.
    None
}

/// Returns the range of a string (RFC 7541, 5.2).
fn text(block: &[u8], at: usize) -> Option<Range<usize>> {
    let (length, begin) = integer(block, at, 7)?;
    let end = begin + length;
    (end <= block.len()).then_some(begin..end)
}

/// Replaces slashes and percent signs by dots in the Huffman code. It stops at a character of more than eight bits,
/// which paths do not contain.
fn without_coded_signs(value: &mut [u8]) {
    /// Each has six bits.
    const SLASH: u8 = 0b01_1000 << 2;
    const PERCENT: u8 = 0b01_0101 << 2;
    const DOT: u8 = 0b01_0111 << 2;
    let bits = value.len() * 8;
    let mut at = 0;
    while at < bits {
        let (byte, offset) = (at / 8, at % 8);
        let second = value.get(byte + 1).copied().unwrap_or(0xff);
        let pair = u16::from_be_bytes([value[byte], second]);
        let next = (pair << offset).to_be_bytes()[0];
        // Codes are ordered by length: the ranges of the first byte for each length.
        let length = match next {
            0..0x50 => 5,
            0x50..0xb8 => 6,
            0xb8..0xf8 => 7,
            0xf8..0xfe => 8,
            0xfe.. => return,
        };
        let sign = next & 0xfc;
        if length == 6 && matches!(sign, SLASH | PERCENT) {
            let change = u16::from(sign ^ DOT) << 8 >> offset;
            let [first, second] = (pair ^ change).to_be_bytes();
            value[byte] = first;
            if let Some(byte) = value.get_mut(byte + 1) {
                *byte = second;
            }
        }
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Huffman code (RFC 7541) of `/run/orlop/orlop.sock`, and of the same with dots.
    const SLASHES: &str = "62cb6a60f6507ad83d941eb5d07275";
    const DOTS: &str = "5ecb6a5cf6507ad73d941eb5d07275";
    /// `run%2Forlop.sock`, and the same with a dot.
    const ESCAPED: &str = "b2da951633d941eb5d07275f";
    const UNESCAPED: &str = "b2da971633d941eb5d07275f";
    /// `www.example.com` (RFC 7541, C.4.1).
    const EXAMPLE: &str = "f1e3c2e5f23a6ba0ab90f4ff";

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, flags, 0, 0, 0, 1]);
        frame.extend(payload);
        frame
    }

    /// Header block: `:method: POST`, a size update, a literal of two strings, `:authority` and a path.
    fn block(coded: bool, authority: &[u8]) -> Vec<u8> {
        let mut block = vec![0x83, 0x3f, 0x01, 0x00, 1, b'a', 2, b'/', b'b', 0x41];
        block.push(u8::try_from(authority.len()).unwrap() | if coded { 0x80 } else { 0 });
        block.extend(authority);
        block.extend([0x44, 4, b'/', b'a', b'/', b'b']);
        block
    }

    /// A connection: settings, data that look like headers, these headers, more data.
    fn connection(headers: &[Vec<u8>]) -> Vec<u8> {
        let mut all = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        all.extend(frame(4, 0, &[]));
        all.extend(frame(0, 0, &block(false, b"/data/is/not/read")));
        all.extend(headers.concat());
        all.extend(frame(0, 1, b"/end"));
        all
    }

    /// A reader that returns the bytes in pieces.
    struct Pieces<'a>(std::slice::Chunks<'a, u8>);

    impl AsyncRead for Pieces<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if let Some(piece) = self.0.next() {
                buffer.put_slice(piece);
            }
            Poll::Ready(Ok(()))
        }
    }

    /// Returns all that is handed on if the input comes in pieces of this size.
    fn read(bytes: &[u8], piece: usize) -> Vec<u8> {
        let mut reading = Reading::new();
        let mut source = Pieces(bytes.chunks(piece));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut all = Vec::new();
        loop {
            let mut room = vec![0; piece];
            let mut buffer = ReadBuf::new(&mut room);
            let Poll::Ready(Ok(())) = reading.poll_read(&mut source, &mut context, &mut buffer)
            else {
                panic!("it does not go on");
            };
            if buffer.filled().is_empty() {
                return all;
            }
            all.extend_from_slice(buffer.filled());
        }
    }

    fn in_all_pieces(given: &[Vec<u8>], wanted: &[Vec<u8>]) {
        let (given, wanted) = (connection(given), connection(wanted));
        for piece in [1, 2, 3, 7, 64, 1000] {
            assert_eq!(read(&given, piece), wanted, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_path_becomes_an_authority_and_nothing_else_changes() {
        let plain = |text: &[u8]| frame(HEADERS, 4, &block(false, text));
        let coded = |text: &str| frame(HEADERS, 4, &block(true, &bytes(text)));
        in_all_pieces(
            &[
                plain(b"/run/orlop.sock"),
                coded(SLASHES),
                plain(b"run%2Forlop.sock"),
                coded(ESCAPED),
                plain(b"localhost"),
                coded(EXAMPLE),
            ],
            &[
                plain(b".run.orlop.sock"),
                coded(DOTS),
                plain(b"run.2Forlop.sock"),
                coded(UNESCAPED),
                plain(b"localhost"),
                coded(EXAMPLE),
            ],
        );
    }

    #[test]
    fn padding_and_priority_are_stepped_over() {
        let padded = |text: &[u8]| {
            let mut payload = vec![3, 0, 0, 0, 0, 16];
            payload.extend(block(false, text));
            payload.extend(*b"/./");
            frame(HEADERS, 4 | PADDED | PRIORITY, &payload)
        };
        in_all_pieces(&[padded(b"/a/b")], &[padded(b".a.b")]);
    }

    #[test]
    fn what_is_malformed_is_left_as_it_is() {
        let lines: [&[u8]; 9] = [
            &[0x41],
            &[0x41, 5, b'/'],
            &[0x41, 0x7f, 0xff, 0xff, 0xff, 0xff, 1],
            &[0x7f, 0xff, 0xff, 0xff, 0x7f],
            &[0x00, 200],
            &[0x41, 0x82, 0xff, 0xff],
            &[0x41, 0x81, 0xfe],
            &[0xff],
            &[],
        ];
        for line in lines {
            for flags in [4, 4 | PADDED, 4 | PRIORITY, 4 | PADDED | PRIORITY] {
                let whole = [frame(HEADERS, flags, line)];
                in_all_pieces(&whole, &whole);
            }
        }
        let large = [frame(HEADERS, 4, &block(false, &[b'/'; 100]).repeat(200))];
        in_all_pieces(&large, &large);
    }

    #[test]
    fn the_end_within_a_frame_is_the_end() {
        let mut bytes = connection(&[]);
        bytes.extend(&frame(HEADERS, 4, &block(false, b"/a/b"))[..15]);
        for piece in [1, 5, 1000] {
            assert_eq!(read(&bytes, piece), bytes);
        }
    }

    fn bytes(text: &str) -> Vec<u8> {
        let pairs = (0..text.len()).step_by(2);
        pairs
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
            .collect()
    }
}
