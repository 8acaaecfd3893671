//! `ExportImages`: streams images as one archive, which is written while the client reads it.

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use futures_util::{FutureExt as _, StreamExt as _};
use orlop_cri_api::images::{ArchiveFormat, ExportImagesRequest, ExportImagesResponse};
use orlop_image_store::{ExportFormat, Pace, Slow};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;

use crate::batches::Answers;
use crate::engine::Engine;
use crate::error::{Error, Result, status};
use crate::image::{check_whole, stored};

/// Size of a message in bytes.
const CHUNK: usize = 256 << 10;

/// Number of messages that are queued for the client.
const QUEUE: usize = 4;

/// Handles the `ExportImages` call. The stream ends with an error if the client reads too slowly.
pub async fn call(
    Engine(node): &Engine,
    request: ExportImagesRequest,
) -> Result<Answers<ExportImagesResponse>> {
    let format = match request.format() {
        ArchiveFormat::Oci => ExportFormat::OciLayout,
        ArchiveFormat::Docker => ExportFormat::DockerArchive,
        ArchiveFormat::Auto => {
            return Err(Error::invalid("format", "must be OCI or DOCKER").into());
        }
    };
    if request.images.is_empty() {
        return Err(Error::invalid("images", "is empty").into());
    }
    // Report errors before the stream starts.
    for name in &request.images {
        let image = stored(&node.images, name).await?;
        check_whole(&image)?;
    }
    let (queue, chunks) = mpsc::channel(QUEUE);
    let images = node.images.clone();
    let given_up = Arc::new(OnceLock::new());
    let out = Chunks {
        queue,
        chunk: Vec::with_capacity(CHUNK),
        pace: node.config().images.pace(),
        given_up: Arc::clone(&given_up),
        reactor: Handle::current(),
    };
    // Not through the queue, which a stalled client leaves full.
    let (fail, failure) = oneshot::channel();
    // Ends when it is done, or at its next chunk if the client has disconnected or stalls.
    node.tasks.spawn(async move {
        let names: Vec<&str> = request.images.iter().map(String::as_str).collect();
        if let Err(source) = images.export(&names, format, out).await {
            let doing = "exporting images";
            let error = match given_up.get() {
                Some(slow) => Error::Timeout(format!(
                    "{doing} was cancelled, because the client is too slow: {slow}"
                )),
                None => Error::Image {
                    doing: doing.into(),
                    source,
                },
            };
            // A client that has disconnected needs no reason.
            let _ = fail.send(status(&error));
        }
    });
    let failure = failure.into_stream().filter_map(async |failed| failed.ok());
    let chunks = ReceiverStream::new(chunks).map(|chunk| Ok(ExportImagesResponse { chunk }));
    Ok(chunks.chain(failure.map(Err)).boxed())
}

/// Writer that splits an archive into messages. Writing blocks.
struct Chunks {
    queue: mpsc::Sender<Vec<u8>>,
    chunk: Vec<u8>,
    pace: Pace,
    /// The reason, if the export was canceled because the client is too slow.
    given_up: Arc<OnceLock<Slow>>,
    reactor: Handle,
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
        let size = chunk.len();
        let sending = self.queue.send(chunk);
        match self
            .reactor
            .block_on(self.pace.wait(sending, |_| Some(size)))
        {
            Ok(sent) => sent.map_err(|_| io::ErrorKind::BrokenPipe.into()),
            Err(slow) => {
                let failed = io::Error::new(io::ErrorKind::TimedOut, slow.clone());
                let _ = self.given_up.set(slow);
                Err(failed)
            }
        }
    }
}
