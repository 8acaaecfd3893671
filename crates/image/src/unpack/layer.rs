//! One layer: hash, decompress, hash again and write out, in one pass over two threads.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::thread;

use super::decompress::decompress;
use super::extract::{RecordFiles, Unpacked, extract};
use super::pipe::pipe;
use crate::config::Limits;
use crate::digest::Hasher;
use crate::{Digest, Error, Result};

/// A layer to unpack and what it must turn out to be.
pub(crate) struct Layer<'a> {
    /// For messages: which layer of which image.
    pub(crate) what: &'a str,
    /// Digest of the compressed bytes; `None` if nobody promised one.
    pub(crate) blob: Option<Digest>,
    /// Digest of the archive; `None` if nobody promised one.
    pub(crate) diff_id: Option<Digest>,
    /// Called when unpacking has failed for good, so that a download in progress ends.
    pub(crate) abandon: &'a (dyn Fn() + Sync),
}

/// Unpacks a compressed layer into the empty directory `target`, checking both digests.
/// Blocks; reads `input` to its end.
pub(crate) fn unpack<J: RecordFiles>(
    layer: &Layer<'_>,
    input: impl Read + Send,
    record: J,
    target: &Path,
    limits: &Limits,
) -> Result<(Unpacked, J)> {
    let (feeder, mut drain) = pipe();
    thread::scope(|scope| {
        let decompressor = thread::Builder::new()
            .name("decompress".to_owned())
            .spawn_scoped(scope, move || {
                let mut hashing = Hashing {
                    input,
                    hasher: Hasher::default(),
                };
                let mut buffered = BufReader::with_capacity(128 << 10, &mut hashing);
                match decompress(&mut buffered) {
                    Ok(plain) => feeder.pump(plain),
                    Err(error) => feeder.pump(Failed(Some(error))),
                }
                // What stands behind the compressed stream belongs to the digest.
                let rest = loop {
                    match buffered.fill_buf().map(<[u8]>::len) {
                        Ok(0) => break Ok(()),
                        Ok(length) => buffered.consume(length),
                        Err(error) => break Err(error),
                    }
                };
                drop(buffered);
                rest.map(|()| hashing.hasher.finish())
            })
            .map_err(|error| Error::io("starting a decompression thread", error))?;
        let extracted = extract(layer.what, &mut drain, record, target, limits);
        let read = match &extracted {
            Ok(_) => Some(drain.finish()),
            Err(error) => {
                // Without a reader the decompressor only hashes what is left: a malformed
                // archive is perhaps just a damaged download.
                drop(drain);
                if !matches!(error, Error::InvalidImage { .. }) {
                    (layer.abandon)();
                }
                None
            }
        };
        let blob = decompressor
            .join()
            .map_err(|_| Error::invalid(layer.what, "its decompressor gave up"))?;
        // The compressed digest comes first: if the bytes are wrong, nothing else means much.
        if let (Some(expected), Ok(actual)) = (layer.blob, &blob)
            && expected != *actual
        {
            return Err(Error::DigestMismatch {
                what: layer.what.to_owned(),
                expected,
                actual: *actual,
            });
        }
        let (mut unpacked, record) = extracted?;
        let _ = blob.map_err(|error| Error::invalid(layer.what, error))?;
        if let Some((actual, bytes)) = read {
            unpacked.archive_bytes = bytes;
            if let Some(expected) = layer.diff_id.filter(|expected| *expected != actual) {
                let what = format!("the unpacked {}", layer.what);
                return Err(Error::DigestMismatch {
                    what,
                    expected,
                    actual,
                });
            }
        }
        Ok((unpacked, record))
    })
}

struct Hashing<R> {
    input: R,
    hasher: Hasher,
}

impl<R: Read> Read for &mut Hashing<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        self.hasher.update(&into[..read]);
        Ok(read)
    }
}

struct Failed(Option<io::Error>);

impl Read for Failed {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
