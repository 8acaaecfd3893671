//! `image import`: takes in the images of an archive.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;

use anyhow::{Context, bail};
use orlop_cri::images::import_images_request::Part;
use orlop_cri::images::{ImportImagesRequest, ImportStart};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;

use super::super::output::write_all;
use super::{Session, client, refused};

/// Bytes of a message.
const CHUNK: usize = 256 << 10;

/// Messages that may wait for the runtime.
const QUEUE: usize = 4;

/// Which archive.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The archive: an OCI image layout or what `docker save` writes, plain or compressed with
    /// gzip or zstd; `-` is the standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    /// A name for an image that the archive doesn't name
    #[arg(long, value_name = "IMAGE")]
    name: Option<String>,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let input: Box<dyn Read + Send> = if args.file.as_os_str() == "-" {
        if io::stdin().is_terminal() {
            bail!("the standard input is a terminal: name a file, or lead an archive in");
        }
        Box::new(io::stdin())
    } else {
        let file = File::open(&args.file);
        Box::new(file.with_context(|| format!("cannot open {}", args.file.display()))?)
    };
    let mut client = client(session).await?;
    let start = Part::Start(ImportStart {
        name: args.name.unwrap_or_default(),
        ..Default::default()
    });
    let (queue, parts) = mpsc::channel(QUEUE);
    queue.send(message(start)).await?;
    let (failed, failure) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        if let Err(error) = feed(input, &queue) {
            // With the queue: its end would be the archive's end, and this archive has none.
            let _ = failed.send((error, queue));
        }
    });
    let answer = tokio::select! {
        answer = client.import_images(ReceiverStream::new(parts)) => answer,
        Ok((error, _queue)) = failure => {
            let context = format!("cannot read {}", args.file.display());
            return Err(error).context(context);
        }
    };
    let answer = answer.map_err(refused).context("cannot import")?;
    let mut text = String::new();
    for image in answer.into_inner().images {
        let _ = writeln!(text, "{} {}", image.id, image.names.join(" "));
    }
    Ok(write_all(&text)?)
}

/// Sends what there is to read.
fn feed(mut input: impl Read, queue: &mpsc::Sender<ImportImagesRequest>) -> io::Result<()> {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK);
        input.by_ref().take(CHUNK as u64).read_to_end(&mut chunk)?;
        // The runtime has all it wants, or refused; its answer says which.
        if chunk.is_empty() || queue.blocking_send(message(Part::Chunk(chunk))).is_err() {
            return Ok(());
        }
    }
}

fn message(part: Part) -> ImportImagesRequest {
    ImportImagesRequest { part: Some(part) }
}
