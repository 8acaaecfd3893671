//! One message on the socket: header, payload, file descriptors.
//!
//! ```text
//! 0        4       6       8           12
//! ├────────┼───────┼───────┼───────────┼─────────┄
//! │ length │ kind  │ fds   │ request   │ payload
//! └────────┴───────┴───────┴───────────┴─────────┄     all little endian
//! ```
//!
//! `length` counts only the payload. The `fds` descriptors are sent with the frame's first byte.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use crate::codec::Malformed;
use crate::message::Body;

/// The size of the header.
pub const HEADER_LEN: usize = 12;

/// The largest payload.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// The maximum number of descriptors in one frame.
pub const MAX_FDS: usize = 8;

/// An encoded message.
#[derive(Debug)]
pub struct Frame {
    /// The kind of the message: a [`Body::KIND`].
    pub kind: u16,
    /// The request's number; 0 for events.
    pub request: u32,
    /// The message's fields.
    pub payload: Vec<u8>,
    /// The descriptors sent with it.
    pub fds: Vec<OwnedFd>,
}

impl Frame {
    /// Encodes `body` as a frame that announces `fds` descriptors.
    pub fn encode<B: Body>(body: &B, request: u32, fds: usize) -> Result<Vec<u8>, Malformed> {
        let mut out = vec![0; HEADER_LEN];
        body.encode(&mut out);
        let length = out.len() - HEADER_LEN;
        if length > MAX_PAYLOAD || fds > MAX_FDS {
            return Err(Malformed::Oversized);
        }
        out[0..4].copy_from_slice(&(length as u32).to_le_bytes());
        out[4..6].copy_from_slice(&B::KIND.to_le_bytes());
        out[6..8].copy_from_slice(&(fds as u16).to_le_bytes());
        out[8..12].copy_from_slice(&request.to_le_bytes());
        Ok(out)
    }
}

/// Buffers data received from a socket and splits it into frames.
#[derive(Debug, Default)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    fds: VecDeque<OwnedFd>,
}

impl FrameBuffer {
    /// Returns an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds received bytes and descriptors.
    pub fn push(&mut self, bytes: &[u8], fds: impl IntoIterator<Item = OwnedFd>) {
        self.bytes.extend_from_slice(bytes);
        self.fds.extend(fds);
    }

    /// Takes the next complete frame, if there is one.
    pub fn pop(&mut self) -> Result<Option<Frame>, Malformed> {
        let Some(header) = self.bytes.first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let kind = u16::from_le_bytes([header[4], header[5]]);
        let fds = usize::from(u16::from_le_bytes([header[6], header[7]]));
        let request = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        if length > MAX_PAYLOAD || fds > MAX_FDS {
            return Err(Malformed::Oversized);
        }
        if self.bytes.len() < HEADER_LEN + length {
            return Ok(None);
        }
        if self.fds.len() < fds {
            return Err(Malformed::MissingFds);
        }
        let payload = self.bytes[HEADER_LEN..HEADER_LEN + length].to_vec();
        self.bytes.drain(..HEADER_LEN + length);
        if self.bytes.is_empty() {
            // A keeper is idle most of its life: free the memory.
            self.bytes = Vec::new();
        }
        Ok(Some(Frame {
            kind,
            request,
            payload,
            fds: self.fds.drain(..fds).collect(),
        }))
    }
}
