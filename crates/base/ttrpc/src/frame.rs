//! Frames: a header of ten bytes and a payload.
//!
//! The header contains the payload's length and the stream ID of the call, both four bytes in big endian, then the
//! frame's type and a byte of flags.

use std::io::{self, Read, Write};

const HEAD: usize = 10;
/// The maximum size of a message.
pub const LARGEST: usize = 4 << 20;

/// The type of a request.
pub const REQUEST: u8 = 1;
/// The type of a response.
pub const RESPONSE: u8 = 2;

/// The type of a message in a streaming call.
pub const DATA: u8 = 3;

/// The sender sends no more messages.
pub const CLOSED: u8 = 1;
/// The call is a streaming call with more messages.
pub const OPEN: u8 = 2;
/// The frame contains no message, not even an empty one.
pub const NO_DATA: u8 = 4;

/// A frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The stream ID of its call.
    pub call: u32,
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Writes the frame with a single call.
    pub fn write(&self, socket: &mut impl Write) -> io::Result<()> {
        let mut frame = Vec::with_capacity(HEAD + self.payload.len());
        frame.extend((self.payload.len() as u32).to_be_bytes());
        frame.extend(self.call.to_be_bytes());
        frame.extend([self.kind, self.flags]);
        frame.extend(&self.payload);
        socket.write_all(&frame)
    }
}

/// Writes a frame without flags with a single call.
pub fn write_frame(socket: &mut impl Write, call: u32, kind: u8, payload: &[u8]) -> io::Result<()> {
    let frame = Frame {
        call,
        kind,
        flags: 0,
        payload: payload.to_vec(),
    };
    frame.write(socket)
}

/// Reads a frame: the stream ID of its call, its type, its payload. A frame that is too large is an error.
pub fn read_frame(socket: &mut impl Read) -> io::Result<(u32, u8, Vec<u8>)> {
    read_whole_frame(socket).map(|frame| (frame.call, frame.kind, frame.payload))
}

/// Reads a frame with its flags.
pub fn read_whole_frame(socket: &mut impl Read) -> io::Result<Frame> {
    let mut head = [0; HEAD];
    socket.read_exact(&mut head)?;
    let word = |at: usize| {
        head[at..]
            .iter()
            .take(4)
            .fold(0, |word, byte| word << 8 | u32::from(*byte))
    };
    let length = word(0) as usize;
    if length > LARGEST {
        return Err(io::Error::other("the message is larger than 4 MiB"));
    }
    let mut payload = vec![0; length];
    socket.read_exact(&mut payload)?;
    Ok(Frame {
        call: word(4),
        kind: head[8],
        flags: head[9],
        payload,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::read_frame;

    #[test]
    fn who_says_too_much_is_not_listened_to() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&[0xff; 10]).unwrap();
        assert!(read_frame(&mut ours).is_err());
    }
}
