//! The sending direction of a channel.

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use tokio_util::sync::CancellationToken;

use super::frame::{self, BINARY, HeadBytes, TEXT, apply_mask};
use super::message::{CLOSE_CHANNEL, Encoding};
use crate::flow::{Outbox, Role};

/// Maximum size of a message, so that channels take turns.
const MAX_MESSAGE: usize = 256 * 1024;
/// Maximum data of a base64 message, which peers buffer as a whole.
const MAX_BASE64_MESSAGE: usize = 24 * 1024;

/// Sends the data of one channel.
pub(crate) struct WsSink {
    pub(super) outbox: Arc<Outbox>,
    pub(super) role: Role,
    pub(super) encoding: Encoding,
    pub(super) channel: u8,
    /// Whether the peer supports the end of a single channel.
    pub(super) says_close: bool,
    scratch: Vec<u8>,
}

impl WsSink {
    pub(super) fn new(
        outbox: Arc<Outbox>,
        role: Role,
        encoding: Encoding,
        channel: u8,
        says_close: bool,
    ) -> Self {
        Self {
            outbox,
            role,
            encoding,
            channel,
            says_close,
            scratch: Vec::new(),
        }
    }

    pub(crate) async fn write(&mut self, data: &[u8]) -> io::Result<()> {
        let size = match self.encoding {
            Encoding::Base64 => MAX_BASE64_MESSAGE,
            Encoding::Binary | Encoding::Tunnel => MAX_MESSAGE,
        };
        for part in data.chunks(size) {
            self.message(part).await?;
        }
        Ok(())
    }

    /// Sends one message, which may be empty.
    pub(crate) async fn message(&mut self, data: &[u8]) -> io::Result<()> {
        if self.role == Role::Server && self.encoding != Encoding::Base64 {
            let tagged = self.encoding == Encoding::Binary;
            let mut head = HeadBytes::new(BINARY, data.len() + usize::from(tagged), None);
            if tagged {
                head.push(&[self.channel]);
            }
            return self.outbox.frame(head.as_slice(), data).await;
        }
        self.scratch.clear();
        let opcode = match self.encoding {
            Encoding::Base64 => {
                self.scratch.push(b'0' + self.channel);
                let encoded = STANDARD.encode(data);
                self.scratch.extend(encoded.as_bytes());
                TEXT
            }
            Encoding::Binary => {
                self.scratch.push(self.channel);
                self.scratch.extend(data);
                BINARY
            }
            Encoding::Tunnel => {
                self.scratch.extend(data);
                BINARY
            }
        };
        let mask = (self.role == Role::Client).then(rand::random);
        if let Some(mask) = mask {
            apply_mask(&mut self.scratch, mask, 0);
        }
        let head = HeadBytes::new(opcode, self.scratch.len(), mask);
        self.outbox.frame(head.as_slice(), &self.scratch).await
    }

    pub(crate) fn refused(&self) -> CancellationToken {
        self.outbox.closed().clone()
    }
}

impl Drop for WsSink {
    fn drop(&mut self) {
        if self.says_close {
            let message = [CLOSE_CHANNEL, self.channel];
            self.outbox
                .control(|out| frame::small(out, BINARY, &message, self.role));
        }
    }
}
