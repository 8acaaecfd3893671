//! WebSocket frame headers and masks.

use crate::flow::Role;

pub(crate) const CONTINUATION: u8 = 0;
pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// Maximum payload of a control frame.
pub(crate) const MAX_CONTROL: usize = 125;
const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
/// Length values that announce an extended length.
const TWO_BYTES: u8 = 0x7e;
const EIGHT_BYTES: u8 = 0x7f;

/// A protocol error of a WebSocket peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WsError {
    /// Reserved bits are set without a negotiated extension.
    #[error("the peer set reserved bits in a frame")]
    Reserved,
    /// The opcode is undefined.
    #[error("the peer sent a frame with the unknown opcode {0}")]
    Opcode(u8),
    /// A client's frame is unmasked, or a server's is masked.
    #[error("the peer did not mask its frames correctly")]
    Mask,
    /// A control frame is fragmented or too long.
    #[error("the peer sent a malformed control frame")]
    Control,
    /// A continuation without a message, or a new message within another.
    #[error("the peer sent message fragments in the wrong order")]
    Fragments,
    /// A message that must be buffered as a whole exceeds the limit.
    #[error("the peer sent a message that exceeds the limit")]
    TooLarge,
    /// The text is not valid base64, which the protocol requires.
    #[error("the peer sent a message that is not valid base64")]
    Base64,
}

/// The first two bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) fin: bool,
    pub(crate) opcode: u8,
    pub(crate) masked: bool,
    /// The length, or the number of bytes of the extended length.
    pub(crate) length: Length,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Here(u8),
    In2Bytes,
    In8Bytes,
}

impl Start {
    /// Parses the start of a frame from `sender`.
    pub(crate) fn parse(bytes: [u8; 2], sender: Role) -> Result<Self, WsError> {
        let [first, second] = bytes;
        if first & 0x70 != 0 {
            return Err(WsError::Reserved);
        }
        let opcode = first & 0x0f;
        let start = Self {
            fin: first & FIN != 0,
            opcode,
            masked: second & MASKED != 0,
            length: match second & !MASKED {
                TWO_BYTES => Length::In2Bytes,
                EIGHT_BYTES => Length::In8Bytes,
                length => Length::Here(length),
            },
        };
        match opcode {
            CONTINUATION | TEXT | BINARY => {}
            CLOSE | PING | PONG => {
                if !start.fin || !matches!(start.length, Length::Here(_)) {
                    return Err(WsError::Control);
                }
            }
            unknown => return Err(WsError::Opcode(unknown)),
        }
        if start.masked != (sender == Role::Client) {
            return Err(WsError::Mask);
        }
        Ok(start)
    }
}

/// The bytes of a frame header: at most 14, and one more for a channel.
#[derive(Clone, Copy)]
pub(crate) struct HeadBytes {
    bytes: [u8; 15],
    used: usize,
}

impl HeadBytes {
    /// Builds the header of an unfragmented frame with `length` bytes of payload.
    pub(crate) fn new(opcode: u8, length: usize, mask: Option<[u8; 4]>) -> Self {
        let mut head = Self {
            bytes: [0; 15],
            used: 0,
        };
        head.push(&[FIN | opcode]);
        let masked = if mask.is_some() { MASKED } else { 0 };
        if length < 126 {
            head.push(&[masked | length as u8]);
        } else if let Ok(length) = u16::try_from(length) {
            head.push(&[masked | TWO_BYTES]);
            head.push(&length.to_be_bytes());
        } else {
            head.push(&[masked | EIGHT_BYTES]);
            head.push(&(length as u64).to_be_bytes());
        }
        if let Some(mask) = mask {
            head.push(&mask);
        }
        head
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.used..self.used + bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

/// Applies or removes a mask; `offset` is the position of `bytes` within the payload.
pub(crate) fn apply_mask(bytes: &mut [u8], mask: [u8; 4], offset: usize) {
    let mut mask = mask;
    mask.rotate_left(offset % 4);
    let wide = u32::from_ne_bytes(mask);
    let (words, rest) = bytes.as_chunks_mut::<4>();
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

/// Encodes a whole control frame.
pub(crate) fn control(out: &mut Vec<u8>, opcode: u8, payload: &[u8], role: Role) {
    debug_assert!(payload.len() <= MAX_CONTROL, "control frames are short");
    small(out, opcode, payload, role);
}

/// Encodes a whole frame with a small payload.
pub(crate) fn small(out: &mut Vec<u8>, opcode: u8, payload: &[u8], role: Role) {
    let mask = (role == Role::Client).then(rand::random);
    out.extend(HeadBytes::new(opcode, payload.len(), mask).as_slice());
    let start = out.len();
    out.extend(payload);
    if let Some(mask) = mask {
        apply_mask(&mut out[start..], mask, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_comes_off_in_pieces() {
        let plain: Vec<u8> = (0..=255).collect();
        let mask = [1, 2, 3, 4];
        let mut masked = plain.clone();
        apply_mask(&mut masked, mask, 0);
        assert_eq!(masked[..5], [1, 3, 1, 7, 5]);
        let mut offset = 0;
        for size in [1, 3, 2, 7, 100, 143] {
            apply_mask(&mut masked[offset..offset + size], mask, offset);
            offset += size;
        }
        assert_eq!(masked, plain);
    }

    #[test]
    fn lengths_take_as_many_bytes_as_they_need() {
        for (length, expected) in [
            (125, &[0x82, 125][..]),
            (126, &[0x82, 126, 0, 126]),
            (65535, &[0x82, 126, 255, 255]),
            (65536, &[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            assert_eq!(HeadBytes::new(BINARY, length, None).as_slice(), expected);
        }
    }

    #[test]
    fn frames_against_the_rules_are_refused() {
        let parse = |bytes| Start::parse(bytes, Role::Client);
        assert_eq!(parse([0xc2, 0x80]), Err(WsError::Reserved));
        assert_eq!(parse([0x83, 0x80]), Err(WsError::Opcode(3)));
        assert_eq!(parse([0x82, 0x05]), Err(WsError::Mask));
        assert_eq!(parse([0x09, 0x80]), Err(WsError::Control));
        assert_eq!(parse([0x89, 0xfe]), Err(WsError::Control));
        assert_eq!(Start::parse([0x82, 0x85], Role::Server), Err(WsError::Mask));
    }
}
