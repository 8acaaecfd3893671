//! SPDY control frames.

use super::frame::{ControlHead, FLAG_FIN, FrameError};
use super::headers::{Deflater, Headers, Inflater};

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const SETTINGS: u16 = 4;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
const WINDOW_UPDATE: u16 = 9;

const SETTING_INITIAL_WINDOW: u32 = 7;
const MAX_STREAM_ID: u32 = i32::MAX as u32;

/// The reset code of a stream (draft 3, section 2.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResetCode {
    RefusedStream = 3,
    Cancel = 5,
}

/// A control frame from the peer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Control {
    SynStream {
        stream: u32,
        fin: bool,
        headers: Headers,
    },
    SynReply {
        stream: u32,
        fin: bool,
    },
    Reset {
        stream: u32,
    },
    InitialWindow(u32),
    Ping(u32),
    GoAway,
    Headers {
        stream: u32,
        fin: bool,
    },
    WindowUpdate {
        stream: u32,
        delta: u32,
    },
    /// A frame that can be ignored.
    Ignored,
}

impl Control {
    pub(crate) fn parse(
        head: ControlHead,
        payload: &[u8],
        inflater: &mut Inflater,
    ) -> Result<Self, FrameError> {
        let malformed = FrameError::Malformed(head.kind);
        let word = |at: usize| {
            payload
                .get(at..at + 4)
                .and_then(|bytes| bytes.try_into().ok())
                .map(u32::from_be_bytes)
                .ok_or(malformed)
        };
        let stream = || match word(0)? & MAX_STREAM_ID {
            0 => Err(malformed),
            stream => Ok(stream),
        };
        let fin = head.flags & FLAG_FIN != 0;
        match head.kind {
            SYN_STREAM => {
                let block = payload.get(10..).ok_or(malformed)?;
                // The block is always inflated to keep the compression context in sync.
                let headers = inflater.inflate(block)?;
                Ok(Self::SynStream {
                    stream: stream()?,
                    fin,
                    headers,
                })
            }
            SYN_REPLY => {
                inflater.inflate(payload.get(4..).ok_or(malformed)?)?;
                Ok(Self::SynReply {
                    stream: stream()?,
                    fin,
                })
            }
            HEADERS => {
                inflater.inflate(payload.get(4..).ok_or(malformed)?)?;
                Ok(Self::Headers {
                    stream: stream()?,
                    fin,
                })
            }
            RST_STREAM => Ok(Self::Reset { stream: stream()? }),
            SETTINGS => Self::parse_settings(payload).ok_or(malformed),
            PING => Ok(Self::Ping(word(0)?)),
            GOAWAY => Ok(Self::GoAway),
            WINDOW_UPDATE => match word(4)? & MAX_STREAM_ID {
                0 => Err(malformed),
                delta => Ok(Self::WindowUpdate {
                    stream: word(0)? & MAX_STREAM_ID,
                    delta,
                }),
            },
            _ => Ok(Self::Ignored),
        }
    }

    fn parse_settings(payload: &[u8]) -> Option<Self> {
        let (count, entries) = payload.split_first_chunk()?;
        let (entries, rest) = entries.as_chunks::<8>();
        if u32::from_be_bytes(*count) as usize != entries.len() || !rest.is_empty() {
            return None;
        }
        for [_flags, a, b, c, value @ ..] in entries {
            if u32::from_be_bytes([0, *a, *b, *c]) == SETTING_INITIAL_WINDOW {
                let window = u32::from_be_bytes(*value);
                return (window <= MAX_STREAM_ID).then_some(Self::InitialWindow(window));
            }
        }
        Some(Self::Ignored)
    }
}

pub(crate) fn syn_stream(
    out: &mut Vec<u8>,
    stream: u32,
    headers: &Headers,
    deflater: &mut Deflater,
) {
    // No associated stream, the highest priority, no credential slot.
    let mut fixed = [0; 10];
    fixed[..4].copy_from_slice(&stream.to_be_bytes());
    with_headers(out, SYN_STREAM, &fixed, headers, deflater);
}

pub(crate) fn syn_reply(out: &mut Vec<u8>, stream: u32, deflater: &mut Deflater) {
    with_headers(
        out,
        SYN_REPLY,
        &stream.to_be_bytes(),
        &Headers::default(),
        deflater,
    );
}

fn with_headers(
    out: &mut Vec<u8>,
    kind: u16,
    fixed: &[u8],
    headers: &Headers,
    deflater: &mut Deflater,
) {
    let mut payload = fixed.to_vec();
    deflater.deflate(headers, &mut payload);
    frame(out, kind, &payload);
}

pub(crate) fn reset(out: &mut Vec<u8>, stream: u32, code: ResetCode) {
    frame(out, RST_STREAM, &pair(stream, code as u32));
}

pub(crate) fn initial_window(out: &mut Vec<u8>, window: u32) {
    let mut payload = [0; 12];
    payload[3] = 1;
    payload[4..8].copy_from_slice(&SETTING_INITIAL_WINDOW.to_be_bytes());
    payload[8..].copy_from_slice(&window.to_be_bytes());
    frame(out, SETTINGS, &payload);
}

pub(crate) fn window_update(out: &mut Vec<u8>, stream: u32, delta: u32) {
    frame(out, WINDOW_UPDATE, &pair(stream, delta));
}

pub(crate) fn ping(out: &mut Vec<u8>, id: u32) {
    frame(out, PING, &id.to_be_bytes());
}

pub(crate) fn go_away(out: &mut Vec<u8>, last_stream: u32) {
    frame(out, GOAWAY, &pair(last_stream, 0));
}

fn frame(out: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    out.extend(
        ControlHead {
            kind,
            flags: 0,
            length: payload.len(),
        }
        .encode(),
    );
    out.extend(payload);
}

fn pair(first: u32, second: u32) -> [u8; 8] {
    ((u64::from(first) << 32) | u64::from(second)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::frame::{HEAD_LEN, Head};
    use super::*;

    fn parse(wire: &[u8], inflater: &mut Inflater) -> Result<Control, FrameError> {
        let (head, payload) = wire.split_first_chunk::<HEAD_LEN>().expect("a head");
        match Head::parse(*head)? {
            Head::Control(head) => {
                assert_eq!(head.length, payload.len(), "the length covers the payload");
                Control::parse(head, payload, inflater)
            }
            Head::Data(head) => panic!("not a control frame: {head:?}"),
        }
    }

    fn written(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out);
        out
    }

    #[test]
    fn every_frame_is_read_as_it_is_written() {
        let (mut deflater, mut inflater) = (Deflater::default(), Inflater::new());
        let headers = Headers::new(&[("streamtype", "error")]);
        let cases = [
            (
                written(|out| syn_stream(out, 7, &headers, &mut deflater)),
                Control::SynStream {
                    stream: 7,
                    fin: false,
                    headers: headers.clone(),
                },
            ),
            (
                written(|out| syn_reply(out, 7, &mut deflater)),
                Control::SynReply {
                    stream: 7,
                    fin: false,
                },
            ),
            (
                written(|out| reset(out, 9, ResetCode::Cancel)),
                Control::Reset { stream: 9 },
            ),
            (
                written(|out| initial_window(out, 1 << 20)),
                Control::InitialWindow(1 << 20),
            ),
            (
                written(|out| window_update(out, 0, 70_000)),
                Control::WindowUpdate {
                    stream: 0,
                    delta: 70_000,
                },
            ),
            (written(|out| ping(out, 2)), Control::Ping(2)),
            (written(|out| go_away(out, 7)), Control::GoAway),
        ];
        for (wire, expected) in cases {
            assert_eq!(parse(&wire, &mut inflater), Ok(expected));
        }
    }

    #[test]
    fn truncated_and_zero_frames_are_refused() {
        let mut inflater = Inflater::new();
        for (kind, payload) in [
            (SYN_STREAM, &[0; 9][..]),
            (RST_STREAM, &[0, 0, 0]),
            (RST_STREAM, &[0; 8]),
            (SETTINGS, &[0, 0, 0, 9]),
            (SETTINGS, &[0, 0, 0, 1, 0, 0, 0, 7, 255, 255, 255, 255]),
            (WINDOW_UPDATE, &[0; 8]),
            (PING, &[]),
        ] {
            let wire = written(|out| frame(out, kind, payload));
            assert_eq!(
                parse(&wire, &mut inflater),
                Err(FrameError::Malformed(kind)),
                "{kind}"
            );
        }
    }
}
