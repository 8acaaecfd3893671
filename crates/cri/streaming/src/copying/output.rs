//! One stream of bytes towards the peer.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

use crate::flow::LARGEST_BUFFER;
use crate::spdy::SpdySink;
use crate::ws::WsSink;

/// A stream of bytes to the peer, with its backpressure. Closing it, or dropping it, says that no
/// more comes.
pub struct Output {
    sink: Sink,
}

/// What an output writes to.
enum Sink {
    Spdy(SpdySink),
    Ws(WsSink),
}

/// Buffers start small and grow while reads fill them, up to [`LARGEST_BUFFER`].
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
    /// Writes all of `data`, waiting for as long as the peer does not take it.
    pub async fn write(&mut self, data: &[u8]) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        match &mut self.sink {
            Sink::Spdy(sink) => sink.write(data).await,
            Sink::Ws(sink) => sink.write(data).await,
        }
    }

    /// Copies `source` until its end; answers how many bytes that were.
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

    /// Cancelled when the peer wants no more of this stream or is gone.
    pub fn refused(&self) -> CancellationToken {
        match &self.sink {
            Sink::Spdy(sink) => sink.refused(),
            Sink::Ws(sink) => sink.refused(),
        }
    }

    /// Says that no more comes.
    pub fn close(self) {
        drop(self);
    }

    /// Breaks the stream off, so that the peer can tell it from a normal end.
    pub(super) fn reset(mut self) {
        match &mut self.sink {
            Sink::Spdy(sink) => sink.reset(),
            Sink::Ws(_) => {}
        }
    }
}
