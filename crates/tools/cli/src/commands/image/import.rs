//! `image import`: imports images from an archive or directory.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use orlop_cri_api::client::Connection;
use orlop_cri_api::images::images_client::ImagesClient;
use orlop_cri_api::images::import_images_request::Part;
use orlop_cri_api::images::{ImportImagesRequest, ImportStart};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::Channel;

use super::client::client;
use crate::connect::{Session, refused};
use crate::output::write_all;

/// Bytes in one message.
const CHUNK: usize = 256 << 10;

/// Limit of messages that wait for the runtime.
const QUEUE: usize = 4;

/// Arguments of `image import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Archive: an OCI image layout or the output of `docker save`, optionally compressed with gzip
    /// or zstd; or a directory with an OCI image layout; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    /// Name for an image that has no name in the archive
    #[arg(long, value_name = "IMAGE")]
    name: Option<String>,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let input = if args.file.is_dir() {
        Input::Directory(args.file.clone())
    } else if args.file.as_os_str() == "-" {
        if io::stdin().is_terminal() {
            bail!(
                "standard input is a terminal; give a file, or redirect an archive to standard \
                 input"
            );
        }
        Input::Archive(Box::new(io::stdin()))
    } else {
        let file = File::open(&args.file);
        let file = file.with_context(|| format!("cannot open {}", args.file.display()))?;
        Input::Archive(Box::new(file))
    };
    let client = client(session).await?;
    let name = args.name.unwrap_or_default();
    let imported = send(client, name, |queue| match input {
        Input::Archive(input) => feed(input, queue),
        Input::Directory(dir) => pack(&dir, queue),
    });
    let text = match imported.await {
        Err(Unsent::Unread(error)) => {
            let context = format!("cannot read {}", args.file.display());
            return Err(error).context(context);
        }
        Err(Unsent::Refused(status)) => return Err(refused(status)).context("cannot import"),
        Ok(text) => text,
    };
    Ok(write_all(&text)?)
}

/// Imports an archive over this connection while it is written. Returns a line with the ID and names of each image.
pub async fn import_archive(
    connection: &Connection,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> anyhow::Result<String> {
    let imported = send(connection.orlop_images(), String::new(), |queue| {
        write(&mut Chunks(queue))
    });
    match imported.await {
        Err(Unsent::Unread(error)) => Err(error.into()),
        Err(Unsent::Refused(status)) => Err(refused(status)),
        Ok(text) => Ok(text),
    }
}

/// Reason why an archive was not sent completely.
enum Unsent {
    Unread(io::Error),
    Refused(Status),
}

async fn send(
    mut client: ImagesClient<Channel>,
    name: String,
    write: impl FnOnce(&mpsc::Sender<ImportImagesRequest>) -> io::Result<()> + Send + 'static,
) -> Result<String, Unsent> {
    let start = Part::Start(ImportStart {
        name,
        ..Default::default()
    });
    let (queue, parts) = mpsc::channel(QUEUE);
    let (failed, failure) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        if queue.blocking_send(message(start)).is_err() {
            return;
        }
        match write(&queue) {
            // The runtime has enough or refused; its response tells which.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                // The queue stays open: closing it would mark the end of an archive that is incomplete.
                let _ = failed.send((error, queue));
            }
            _ => {}
        }
    });
    let answer = tokio::select! {
        answer = client.import_images(ReceiverStream::new(parts)) => answer,
        Ok((error, _queue)) = failure => return Err(Unsent::Unread(error)),
    };
    let mut text = String::new();
    for image in answer.map_err(Unsent::Refused)?.into_inner().images {
        let _ = writeln!(text, "{} {}", image.id, image.names.join(" "));
    }
    Ok(text)
}

/// Source of the images.
enum Input {
    Archive(Box<dyn Read + Send>),
    Directory(PathBuf),
}

/// Sends a directory as an archive.
fn pack(dir: &Path, queue: &mpsc::Sender<ImportImagesRequest>) -> io::Result<()> {
    let out = io::BufWriter::with_capacity(CHUNK, Chunks(queue));
    let mut archive = tar::Builder::new(out);
    archive.follow_symlinks(false);
    archive.append_dir_all(".", dir)?;
    archive.into_inner()?.flush()
}

/// A writer that sends its input as messages.
struct Chunks<'a>(&'a mpsc::Sender<ImportImagesRequest>);

impl Write for Chunks<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(CHUNK)];
        self.0
            .blocking_send(message(Part::Chunk(bytes.to_vec())))
            .map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends everything from a reader.
fn feed(mut input: impl Read, queue: &mpsc::Sender<ImportImagesRequest>) -> io::Result<()> {
    loop {
        let chunk = orlop_fs::read_start(&mut input, CHUNK as u64)?;
        // The runtime has enough or refused; its response tells which.
        if chunk.is_empty() || queue.blocking_send(message(Part::Chunk(chunk))).is_err() {
            return Ok(());
        }
    }
}

fn message(part: Part) -> ImportImagesRequest {
    ImportImagesRequest { part: Some(part) }
}
