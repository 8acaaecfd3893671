//! Read buffer that frames are parsed from.

use std::io;

use tokio::io::AsyncReadExt;

use super::transport::Reader;

/// Maximum buffer size. Buffers grow while reads fill them: an idle session uses little memory, and a bulk transfer
/// few system calls.
pub(crate) const LARGEST_BUFFER: usize = 256 * 1024;

/// Initial buffer size; it grows like the write buffers.
const FIRST_BUFFER: usize = 16 * 1024;

/// Reads a transport in large chunks and returns the requested parts.
pub(crate) struct ReadBuffer {
    reader: Reader,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl ReadBuffer {
    pub(crate) fn new(reader: Reader) -> Self {
        Self {
            reader,
            buffer: vec![0; FIRST_BUFFER],
            start: 0,
            end: 0,
        }
    }

    /// Whether the transport is at its end; waits until that is known.
    pub(crate) async fn at_end(&mut self) -> io::Result<bool> {
        Ok(self.start == self.end && !self.fill().await?)
    }

    /// Reads the next `N` bytes.
    pub(crate) async fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.exactly(N).await?);
        Ok(bytes)
    }

    /// Reads the next `length` bytes contiguously; they must fit into the initial buffer.
    pub(crate) async fn exactly(&mut self, length: usize) -> io::Result<&mut [u8]> {
        if self.start + length > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while self.end - self.start < length {
            if !self.fill().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.take(length))
    }

    /// Reads at least one and at most `most` bytes.
    pub(crate) async fn some(&mut self, most: usize) -> io::Result<&mut [u8]> {
        if self.at_end().await? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(self.take(most.min(self.end - self.start)))
    }

    fn take(&mut self, length: usize) -> &mut [u8] {
        let taken = &mut self.buffer[self.start..self.start + length];
        self.start += length;
        taken
    }

    async fn fill(&mut self) -> io::Result<bool> {
        if self.start == self.end {
            let filled = self.end == self.buffer.len();
            (self.start, self.end) = (0, 0);
            if filled && self.buffer.len() < LARGEST_BUFFER {
                // The content is consumed: a new buffer avoids a copy.
                self.buffer = vec![0; self.buffer.len() * 2];
            }
        }
        let read = self.reader.read(&mut self.buffer[self.end..]).await?;
        self.end += read;
        Ok(read > 0)
    }
}
