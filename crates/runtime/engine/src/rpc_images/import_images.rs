//! `ImportImages`: imports the images of an archive while it arrives.
//!
//! The reader detects the kind of the archive, whatever the client says.

use std::io::{self, Read};
use std::pin::pin;

use orlop_cri_api::images::import_images_request::Part;
use orlop_cri_api::images::{
    ImportImagesRequest, ImportImagesResponse, ImportStart, ImportedImage,
};
use orlop_image_store::{Image, ImportSource, Pace, Platform};
use prost::bytes::{Buf as _, Bytes};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use crate::config::Config;
use crate::engine::Engine;
use crate::error::{Error, Result};

/// Number of messages that are queued for the reader.
const QUEUE: usize = 2;

/// Handles the `ImportImages` call. Nothing is imported if the client disconnects before the end of the archive, or
/// sends it too slowly.
pub async fn call(
    Engine(node): &Engine,
    parts: Streaming<ImportImagesRequest>,
) -> Result<ImportImagesResponse> {
    let mut parts = Parts {
        stream: parts,
        pace: node.config().images.pace(),
    };
    let Some(Part::Start(start)) = parts.next().await? else {
        return Err(Error::invalid("start", "must be the first message").into());
    };
    check_platform(&node.config(), &start)?;
    let (queue, pieces) = mpsc::channel(QUEUE);
    let source = ImportSource::Stream(Box::new(Archive {
        pieces,
        piece: Bytes::new(),
        over: false,
    }));
    let name = Some(start.name.as_str()).filter(|name| !name.is_empty());
    let mut feeding = pin!(feed(parts, queue));
    let mut importing = pin!(node.images.import(source, name));
    let imported = tokio::select! {
        biased;
        fed = &mut feeding => {
            // An error of the stream explains an error of the archive, so it is reported first. The reader then finds
            // the queue closed and ends.
            fed?;
            importing.await
        }
        // The result is returned even if the client still sends data or stalls.
        imported = &mut importing => imported,
    };
    let imported = imported.map_err(|source| Error::Image {
        doing: "importing an archive".into(),
        source,
    })?;
    Ok(ImportImagesResponse {
        images: imported.into_iter().map(told).collect(),
    })
}

/// Rejects other platforms, whose images the node's containers cannot use.
fn check_platform(config: &Config, start: &ImportStart) -> Result<()> {
    if start.platform.is_empty() {
        return Ok(());
    }
    let asked: Platform = start
        .platform
        .parse()
        .map_err(|error: orlop_image_store::Error| {
            Error::invalid("start.platform", error.to_string())
        })?;
    if asked != config.images.platform {
        let problem = "importing images of another platform is not implemented by this runtime";
        return Err(Error::Unimplemented(problem.to_owned()).into());
    }
    Ok(())
}

enum Piece {
    Bytes(Bytes),
    /// The end of the archive, not of the connection.
    End,
}

async fn feed(mut parts: Parts, queue: mpsc::Sender<Piece>) -> Result<()> {
    loop {
        let piece = match parts.next().await? {
            Some(Part::Chunk(bytes)) => Piece::Bytes(bytes.into()),
            Some(Part::Start(_)) => {
                return Err(Error::invalid("start", "was sent twice").into());
            }
            None => Piece::End,
        };
        let is_end = matches!(piece, Piece::End);
        // The reader has all its input, or has failed.
        if queue.send(piece).await.is_err() || is_end {
            return Ok(());
        }
    }
}

/// Messages of the client.
struct Parts {
    stream: Streaming<ImportImagesRequest>,
    pace: Pace,
}

impl Parts {
    /// Receives the next part, with the same minimum rate as a download.
    async fn next(&mut self) -> Result<Option<Part>> {
        let message = self.pace.wait(self.stream.message(), size).await;
        let message = message.map_err(|slow| {
            let text = format!(
                "importing an archive was cancelled, because the client is too slow: {slow}"
            );
            Error::Timeout(text)
        })?;
        let message = message.map_err(|broken| {
            Error::invalid(
                "chunk",
                format!("the stream was interrupted: {}", broken.message()),
            )
        })?;
        match message {
            None => Ok(None),
            Some(ImportImagesRequest { part: Some(part) }) => Ok(Some(part)),
            Some(ImportImagesRequest { part: None }) => {
                Err(Error::invalid("part", "must be a start or a chunk").into())
            }
        }
    }
}

/// Returns the number of archive bytes in a message; `None` at the end of the stream.
fn size(came: &Result<Option<ImportImagesRequest>, Status>) -> Option<usize> {
    match &came.as_ref().ok()?.as_ref()?.part {
        Some(Part::Chunk(bytes)) => Some(bytes.len()),
        _ => Some(0),
    }
}

/// Reader of the archive. Reading blocks.
struct Archive {
    pieces: mpsc::Receiver<Piece>,
    piece: Bytes,
    over: bool,
}

impl Read for Archive {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.over && self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(Piece::Bytes(bytes)) => self.piece = bytes,
                Some(Piece::End) => self.over = true,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let count = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

fn told(image: Image) -> ImportedImage {
    ImportedImage {
        id: image.id.to_string(),
        names: image.repo_tags,
    }
}
