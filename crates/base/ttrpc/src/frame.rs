//! Frames: a head of ten bytes and a payload.
//!
//! The head is the payload's length and the number of the call, both of four bytes, the highest first, then
//! the frame's kind and a byte of flags.

use std::io::{self, Read, Write};

const HEAD: usize = 10;
/// No message may be larger.
pub const LARGEST: usize = 4 << 20;

/// The kind of a frame that asks.
pub const REQUEST: u8 = 1;
/// The kind of a frame that answers.
pub const RESPONSE: u8 = 2;

/// The kind of a frame of a call on which both sides say more than once.
pub const DATA: u8 = 3;

/// With this the sender has said all that it has to say.
pub const CLOSED: u8 = 1;
/// With this a call begins on which more will be said.
pub const OPEN: u8 = 2;
/// There is no message in the frame, not even an empty one.
pub const NO_DATA: u8 = 4;

/// A frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The number of its call.
    pub call: u32,
    /// Its kind.
    pub kind: u8,
    /// What the sender says beside it.
    pub flags: u8,
    /// What it holds.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Writes it at once.
    pub fn write(&self, socket: &mut impl Write) -> io::Result<()> {
        let mut frame = Vec::with_capacity(HEAD + self.payload.len());
        frame.extend((self.payload.len() as u32).to_be_bytes());
        frame.extend(self.call.to_be_bytes());
        frame.extend([self.kind, self.flags]);
        frame.extend(&self.payload);
        socket.write_all(&frame)
    }
}

/// Writes a frame without flags at once.
pub fn write_frame(socket: &mut impl Write, call: u32, kind: u8, payload: &[u8]) -> io::Result<()> {
    let frame = Frame {
        call,
        kind,
        flags: 0,
        payload: payload.to_vec(),
    };
    frame.write(socket)
}

/// Reads a frame: the number of its call, its kind, its payload. An error where it is too large.
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
