//! `ExportImages`: writes images as one archive, made while the client reads it.

use std::io::{self, Write};

use futures_util::StreamExt as _;
use orlop_cri::images::{ArchiveFormat, ExportImagesRequest, ExportImagesResponse};
use orlop_image::ExportFormat;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::engine::Engine;
use crate::error::{Error, Result, status};
use crate::images::find;
use crate::service::Answers;

/// Bytes of a message.
const CHUNK: usize = 256 << 10;

/// Messages that may wait for the client.
const QUEUE: usize = 4;

/// Answers the call.
pub fn call(
    engine: &Engine,
    request: ExportImagesRequest,
) -> Result<Answers<ExportImagesResponse>> {
    let format = match request.format() {
        ArchiveFormat::Oci => ExportFormat::OciLayout,
        ArchiveFormat::Docker => ExportFormat::DockerArchive,
        ArchiveFormat::Auto => {
            return Err(Error::invalid("format", "must be one to write: OCI or DOCKER").into());
        }
    };
    if request.images.is_empty() {
        return Err(Error::invalid("images", "is empty").into());
    }
    // Better told now than in the midst of the stream.
    for name in &request.images {
        find(engine, name)?.ok_or_else(|| Error::NotFound {
            what: "image",
            id: name.clone(),
        })?;
    }
    let (queue, chunks) = mpsc::channel(QUEUE);
    let images = engine.images.clone();
    // Ends when it is done, or at its next chunk when the client has left.
    engine.tasks.spawn(async move {
        let names: Vec<&str> = request.images.iter().map(String::as_str).collect();
        let out = Chunks {
            queue: queue.clone(),
            chunk: Vec::with_capacity(CHUNK),
        };
        if let Err(source) = images.export(&names, format, out).await {
            let doing = "exporting images".into();
            let failure = status(&Error::Image { doing, source });
            // Who has left needs no reason.
            let _ = queue.send(Err(failure)).await;
        }
    });
    Ok(ReceiverStream::new(chunks).boxed())
}

/// Cuts an archive into messages. Writing blocks.
struct Chunks {
    queue: mpsc::Sender<Result<ExportImagesResponse, Status>>,
    chunk: Vec<u8>,
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(CHUNK - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..count]);
        if self.chunk.len() == CHUNK {
            self.flush()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK));
        let message = ExportImagesResponse { chunk };
        self.queue
            .blocking_send(Ok(message))
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
