//! Encoding of channels and their data in messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::frame::WsError;

/// Maximum length of a base64 message, which must be buffered as a whole.
const MAX_BASE64: usize = 1024 * 1024;
/// The channel whose messages contain the number of a channel that ends (protocol version 5).
pub(crate) const CLOSE_CHANNEL: u8 = 255;

/// The encoding of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// A byte with the channel's number, then data.
    Binary,
    /// The channel's number as a digit, then data in base64.
    Base64,
    /// Only the data of channel 0.
    Tunnel,
}

/// Decodes the payload of messages, piece by piece.
pub(crate) struct Unpacker {
    encoding: Encoding,
    channel: Option<u8>,
    text: Vec<u8>,
}

impl Unpacker {
    pub(crate) fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            channel: None,
            text: Vec::new(),
        }
    }

    /// Starts a message.
    pub(crate) fn begin(&mut self) {
        self.channel = (self.encoding == Encoding::Tunnel).then_some(0);
        self.text.clear();
    }

    /// Decodes the next piece; returns the channel and the data that is available already.
    pub(crate) fn piece<'a>(&mut self, piece: &'a [u8]) -> Result<Option<(u8, &'a [u8])>, WsError> {
        if self.encoding == Encoding::Base64 {
            if self.text.len() + piece.len() > MAX_BASE64 {
                return Err(WsError::TooLarge);
            }
            self.text.extend(piece);
            return Ok(None);
        }
        Ok(match (self.channel, piece) {
            (Some(channel), data) => Some((channel, data)),
            (None, [channel, data @ ..]) => {
                self.channel = Some(*channel);
                Some((*channel, data))
            }
            (None, []) => None,
        })
    }

    /// Ends the message; returns the data that can only be decoded once the message is complete (base64).
    pub(crate) fn finish(&mut self) -> Result<Option<(u8, Vec<u8>)>, WsError> {
        let [digit, text @ ..] = &self.text[..] else {
            return Ok(None);
        };
        let channel = digit.wrapping_sub(b'0');
        let data = STANDARD.decode(text).map_err(|_| WsError::Base64)?;
        self.text = Vec::new();
        Ok(Some((channel, data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_messages_are_decoded_whole() {
        let mut unpacker = Unpacker::new(Encoding::Base64);
        unpacker.begin();
        assert_eq!(unpacker.piece(b"1aGVs"), Ok(None));
        assert_eq!(unpacker.piece(b"bG8="), Ok(None));
        assert_eq!(unpacker.finish(), Ok(Some((1, b"hello".to_vec()))));
        unpacker.begin();
        assert_eq!(unpacker.piece(b"0!!"), Ok(None));
        assert_eq!(unpacker.finish(), Err(WsError::Base64));
        unpacker.begin();
        assert_eq!(
            unpacker.piece(&vec![b'A'; MAX_BASE64 + 1]),
            Err(WsError::TooLarge)
        );
    }

    #[test]
    fn binary_data_is_passed_on_piece_by_piece() {
        let mut unpacker = Unpacker::new(Encoding::Binary);
        unpacker.begin();
        assert_eq!(unpacker.piece(b""), Ok(None));
        assert_eq!(unpacker.piece(b"\x02ab"), Ok(Some((2, &b"ab"[..]))));
        assert_eq!(unpacker.piece(b"\x01cd"), Ok(Some((2, &b"\x01cd"[..]))));
        assert_eq!(unpacker.finish(), Ok(None));
        unpacker.begin();
        assert_eq!(unpacker.piece(b"\x01"), Ok(Some((1, &b""[..]))));
    }
}
