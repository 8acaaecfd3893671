//! SPDY frame headers of eight bytes.

/// The length of a frame header.
pub(crate) const HEAD_LEN: usize = 8;
/// Maximum payload of a data frame: its length has 24 bits.
pub(crate) const MAX_DATA: usize = (1 << 24) - 1;
/// Maximum length of a control frame; those of real peers have a few hundred bytes.
pub(crate) const MAX_CONTROL: usize = 16 * 1024;

const CONTROL_BIT: u32 = 1 << 31;
const VERSION: u32 = 3;
pub(crate) const FLAG_FIN: u8 = 1;

/// A protocol error of a SPDY peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The version is not 3.
    #[error("the peer uses SPDY version {0}; only version 3 is supported")]
    Version(u16),
    /// A control frame exceeds the limit.
    #[error("the peer sent a control frame of {0} bytes; the limit is {MAX_CONTROL}")]
    ControlTooLarge(usize),
    /// A control frame is too short for its type, or has invalid values.
    #[error("the peer sent a malformed frame of type {0}")]
    Malformed(u16),
    /// A header block cannot be inflated or parsed.
    #[error("the peer sent a malformed header block")]
    BadHeaders,
    /// A header block exceeds the limits.
    #[error("the peer sent a header block that exceeds the limits")]
    HeadersTooLarge,
    /// The peer used an invalid stream id.
    #[error("the peer used stream ID {0} out of order")]
    StreamId(u32),
    /// The peer sent more data than the window allows.
    #[error("the peer sent more on stream {0} than its window allows")]
    WindowExceeded(u32),
    /// A window update exceeds the protocol's maximum.
    #[error("the peer increased the window of stream {0} beyond 2^31")]
    WindowOverflow(u32),
}

/// The header of a data frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataHead {
    pub(crate) stream: u32,
    pub(crate) fin: bool,
    pub(crate) length: usize,
}

/// The header of a control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlHead {
    pub(crate) kind: u16,
    pub(crate) flags: u8,
    pub(crate) length: usize,
}

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Data(DataHead),
    Control(ControlHead),
}

impl Head {
    pub(crate) fn parse(bytes: [u8; HEAD_LEN]) -> Result<Self, FrameError> {
        let whole = u64::from_be_bytes(bytes);
        let (first, second) = ((whole >> 32) as u32, whole as u32);
        let (flags, length) = ((second >> 24) as u8, (second & 0x00ff_ffff) as usize);
        if first & CONTROL_BIT == 0 {
            if first == 0 {
                return Err(FrameError::StreamId(0));
            }
            return Ok(Self::Data(DataHead {
                stream: first,
                fin: flags & FLAG_FIN != 0,
                length,
            }));
        }
        let version = ((first & !CONTROL_BIT) >> 16) as u16;
        if u32::from(version) != VERSION {
            return Err(FrameError::Version(version));
        }
        if length > MAX_CONTROL {
            return Err(FrameError::ControlTooLarge(length));
        }
        Ok(Self::Control(ControlHead {
            kind: first as u16,
            flags,
            length,
        }))
    }
}

impl DataHead {
    pub(crate) fn encode(self) -> [u8; HEAD_LEN] {
        debug_assert!(
            self.length <= MAX_DATA,
            "longer data is split by the caller"
        );
        let second = (u32::from(self.fin) << 24) | self.length as u32;
        join(self.stream, second)
    }
}

impl ControlHead {
    pub(crate) fn encode(self) -> [u8; HEAD_LEN] {
        let first = CONTROL_BIT | (VERSION << 16) | u32::from(self.kind);
        join(first, (u32::from(self.flags) << 24) | self.length as u32)
    }
}

fn join(first: u32, second: u32) -> [u8; HEAD_LEN] {
    ((u64::from(first) << 32) | u64::from(second)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_they_are_written() {
        let data = DataHead {
            stream: 5,
            fin: true,
            length: MAX_DATA,
        };
        assert_eq!(data.encode(), [0, 0, 0, 5, 1, 255, 255, 255]);
        assert_eq!(Head::parse(data.encode()), Ok(Head::Data(data)));
        let control = ControlHead {
            kind: 6,
            flags: 0,
            length: 4,
        };
        assert_eq!(control.encode(), [0x80, 3, 0, 6, 0, 0, 0, 4]);
        assert_eq!(Head::parse(control.encode()), Ok(Head::Control(control)));
    }

    #[test]
    fn other_versions_and_huge_control_frames_are_refused() {
        let version_2 = [0x80, 2, 0, 1, 0, 0, 0, 0];
        assert_eq!(Head::parse(version_2), Err(FrameError::Version(2)));
        let huge = [0x80, 3, 0, 1, 0, 255, 255, 255];
        assert_eq!(
            Head::parse(huge),
            Err(FrameError::ControlTooLarge(MAX_DATA))
        );
        // "HTTP/1.1" in place of a frame.
        assert!(Head::parse(*b"\x80TTP/1.1").is_err());
    }
}
