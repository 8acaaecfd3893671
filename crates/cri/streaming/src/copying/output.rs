//! An outgoing byte stream to the peer.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

use crate::flow::LARGEST_BUFFER;
use crate::spdy::SpdySink;
use crate::ws::WsSink;

/// A byte stream to the peer, with backpressure. Closing or dropping it signals the end of the stream.
pub struct Output {
    sink: Sink,
}

/// The destination of an output.
enum Sink {
    Spdy(SpdySink),
    Ws(WsSink),
}

/// Initial buffer size; buffers grow while reads fill them, up to [`LARGEST_BUFFER`].
pub(super) const FIRST_BUFFER: usize = 8 * 1024;

impl From<SpdySink> for Output {
    fn from(sink: SpdySink) -> Self {
        Self {
            sink: Sink::Spdy(sink),
        }
    }
}

impl From<WsSink> for Output {
    fn from(sink: WsSink) -> Self {
        Self {
            sink: Sink::Ws(sink),
        }
    }
}

impl Output {
    /// Writes all of `data`; waits while the peer does not accept more.
    pub async fn write(&mut self, data: &[u8]) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        match &mut self.sink {
            Sink::Spdy(sink) => sink.write(data).await,
            Sink::Ws(sink) => sink.write(data).await,
        }
    }

    /// Copies `source` until its end and returns the number of bytes.
    pub async fn copy_from(&mut self, source: &mut (impl AsyncRead + Unpin)) -> io::Result<u64> {
        let mut buffer = vec![0; FIRST_BUFFER];
        let mut copied = 0;
        loop {
            let read = source.read(&mut buffer).await?;
            if read == 0 {
                return Ok(copied);
            }
            self.write(&buffer[..read]).await?;
            copied += read as u64;
            if read == buffer.len() && read < LARGEST_BUFFER {
                buffer.resize(read * 2, 0);
            }
        }
    }

    /// Returns a token that is cancelled when the peer rejects more data of this stream or is gone.
    pub fn refused(&self) -> CancellationToken {
        match &self.sink {
            Sink::Spdy(sink) => sink.refused(),
            Sink::Ws(sink) => sink.refused(),
        }
    }

    /// Signals the end of the stream.
    pub fn close(self) {
        drop(self);
    }

    /// Resets the stream, so that the peer can tell this from a normal end.
    pub(super) fn reset(mut self) {
        match &mut self.sink {
            Sink::Spdy(sink) => sink.reset(),
            Sink::Ws(_) => {}
        }
    }
}
