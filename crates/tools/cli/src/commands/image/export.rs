//! `image export`: writes images as one archive, or as a directory.

use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use orlop_cri_api::images::{ArchiveFormat, ExportImagesRequest, ExportImagesResponse};
use orlop_fs::Output;
use tokio::sync::mpsc;
use tonic::Streaming;

use super::client::client;
use crate::connect::{Session, refused};
use crate::terminal::interrupt;

/// Arguments of `image export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Names or IDs of the images
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<String>,

    /// File to write, or a directory if it ends with `/`; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// Format of the archive
    #[arg(long, value_name = "FORMAT", default_value = "oci")]
    format: Format,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    /// OCI image layout in a tar archive
    Oci,
    /// Archive in the format of `docker save`
    Docker,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let to_stdout = args.output.as_os_str() == "-";
    if to_stdout && io::stdout().is_terminal() {
        bail!("standard output is a terminal; give a file with --output");
    }
    let directory = args.output.is_dir() || ends_in_slash(&args.output);
    if directory && matches!(args.format, Format::Docker) {
        bail!("only the format oci can be written to a directory; give a file with --output");
    }
    let format = match args.format {
        Format::Oci => ArchiveFormat::Oci,
        Format::Docker => ArchiveFormat::Docker,
    };
    let request = ExportImagesRequest {
        images: args.images,
        format: format.into(),
    };
    let mut client = client(session).await?;
    let answer = client.export_images(request).await.map_err(refused);
    let chunks = answer.context("cannot export")?.into_inner();
    if to_stdout {
        return copy(chunks, io::stdout()).await;
    }
    if directory {
        return unpack(chunks, args.output).await;
    }
    let failed = || format!("cannot write {}", args.output.display());
    let output = Output::of(&args.output, 0o666).with_context(failed)?;
    tokio::select! {
        copied = copy(chunks, output.file()) => copied?,
        _ = interrupt::received() => bail!("interrupted; the incomplete output was removed"),
    }
    output.keep().with_context(failed)
}

async fn copy(
    mut chunks: Streaming<ExportImagesResponse>,
    mut out: impl Write,
) -> anyhow::Result<()> {
    while let Some(message) = chunks
        .message()
        .await
        .map_err(refused)
        .context("cannot export")?
    {
        out.write_all(&message.chunk)
            .context("cannot write the archive")?;
    }
    out.flush().context("cannot write the archive")
}

fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Limit of chunks that wait to be written.
const QUEUE: usize = 4;

/// Unpacks the archive into a directory, which must be empty or missing.
async fn unpack(mut chunks: Streaming<ExportImagesResponse>, to: PathBuf) -> anyhow::Result<()> {
    let (queue, parts) = mpsc::channel(QUEUE);
    let writing = tokio::task::spawn_blocking(move || write_directory(parts, &to));
    let feeding = async {
        while let Some(message) = chunks.message().await.map_err(refused)? {
            // If the receiver is gone it has failed; its error is reported below.
            if queue.send(Some(message.chunk)).await.is_err() {
                return anyhow::Ok(());
            }
        }
        let _ = queue.send(None).await;
        Ok(())
    };
    let fed = tokio::select! {
        fed = feeding => fed.context("cannot export"),
        _ = interrupt::received() => Err(anyhow!("interrupted; the incomplete output was removed")),
    };
    // Without the end marker the unpacked files are removed.
    drop(queue);
    let written = writing.await?;
    fed.and(written)
}

fn write_directory(parts: Parts, to: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot write the directory {}", to.display());
    let fresh = !to.exists();
    fs::create_dir_all(to).with_context(failed)?;
    if fs::read_dir(to).with_context(failed)?.next().is_some() {
        bail!("the directory {} is not empty", to.display());
    }
    let input = Chunks {
        parts,
        chunk: io::Cursor::default(),
        ended: false,
    };
    let done = tar::Archive::new(input).unpack(to);
    if done.is_err() {
        // A partial layout is always removed.
        for entry in fs::read_dir(to).into_iter().flatten().flatten() {
            let _ = orlop_fs::remove_tree(&entry.path());
        }
        if fresh {
            let _ = fs::remove_dir(to);
        }
    }
    done.with_context(failed)
}

/// Chunks; `None` marks the end of the archive.
type Parts = mpsc::Receiver<Option<Vec<u8>>>;

/// A reader of the queued chunks.
struct Chunks {
    parts: Parts,
    chunk: io::Cursor<Vec<u8>>,
    ended: bool,
}

impl Read for Chunks {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.chunk.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            match self.parts.blocking_recv() {
                Some(Some(chunk)) => self.chunk = io::Cursor::new(chunk),
                Some(None) => {
                    self.ended = true;
                    return Ok(0);
                }
                None if self.ended => return Ok(0),
                None => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }
}
