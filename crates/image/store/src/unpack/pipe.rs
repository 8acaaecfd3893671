//! Passes buffers from the thread that decompresses to the thread that writes files.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::Digest;
use crate::digest::Hasher;

const BUFFER: usize = 256 << 10;
/// Number of buffers in flight, in addition to one at each end.
const DEPTH: usize = 4;
/// Maximum memory of a layer's buffers.
pub(super) const MEMORY: u64 = (BUFFER * (DEPTH + 2)) as u64;

/// Creates a pipe of buffers. `hasher` hashes all bytes that pass through.
pub(super) fn pipe(hasher: Hasher) -> (Feeder, Drain) {
    let (full_in, full_out) = sync_channel(DEPTH);
    let (empty_in, empty_out) = sync_channel(DEPTH + 2);
    let feeder = Feeder {
        full: full_in,
        empty: empty_out,
    };
    let drain = Drain {
        full: full_out,
        empty: empty_in,
        buffer: Vec::new(),
        at: 0,
        ended: false,
        hasher,
        bytes: 0,
    };
    (feeder, drain)
}

/// The writing end.
pub(super) struct Feeder {
    full: SyncSender<io::Result<Vec<u8>>>,
    empty: Receiver<Vec<u8>>,
}

impl Feeder {
    /// Copies all of `input` into the pipe. Returns without error if the reading end is dropped.
    pub(super) fn pump(self, mut input: impl Read) {
        loop {
            let mut buffer = self.empty.try_recv().unwrap_or_default();
            buffer.resize(BUFFER, 0);
            let mut filled = 0;
            while filled < BUFFER {
                match input.read(&mut buffer[filled..]) {
                    Ok(0) => break,
                    Ok(read) => filled += read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        let _ = self.full.send(Err(error));
                        return;
                    }
                }
            }
            let ended = filled < BUFFER;
            buffer.truncate(filled);
            // An empty buffer marks the end: without it, the stream is incomplete.
            if self.full.send(Ok(buffer)).is_err() {
                return;
            }
            if ended {
                let _ = self.full.send(Ok(Vec::new()));
                return;
            }
        }
    }
}

/// The reading end. Hashes all bytes that pass through.
pub(super) struct Drain {
    full: Receiver<io::Result<Vec<u8>>>,
    empty: SyncSender<Vec<u8>>,
    buffer: Vec<u8>,
    at: usize,
    ended: bool,
    hasher: Hasher,
    bytes: u64,
}

impl Drain {
    /// Returns the digest and the number of all bytes read.
    pub(super) fn finish(self) -> (Digest, u64) {
        (self.hasher.finish(), self.bytes)
    }
}

impl BufRead for &mut Drain {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.buffer.len() && !self.ended {
            let next = self.full.recv().map_err(|_| {
                io::Error::new(io::ErrorKind::BrokenPipe, "the decompressor stopped")
            })??;
            let used = std::mem::replace(&mut self.buffer, next);
            let _ = self.empty.try_send(used);
            self.at = 0;
            self.ended = self.buffer.is_empty();
            self.hasher.update(&self.buffer);
            self.bytes += self.buffer.len() as u64;
        }
        Ok(&self.buffer[self.at..])
    }

    fn consume(&mut self, amount: usize) {
        self.at += amount;
    }
}

impl Read for &mut Drain {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let piece = self.fill_buf()?;
        let take = piece.len().min(into.len());
        into[..take].copy_from_slice(&piece[..take]);
        self.consume(take);
        Ok(take)
    }
}
