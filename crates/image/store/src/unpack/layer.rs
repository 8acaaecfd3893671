//! Unpacks one layer in one pass over two threads: hash, decompress, hash again and write.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use orlop_encryption::{Options, Plain};
use orlop_pool::started;

use super::decompress::{claimed, decompress};
use super::extract::{RecordFiles, Spending, extract};
use super::memory::LayerMemory;
use super::packed::Packed;
use super::pipe::{Feeder, pipe};
use super::target::Target;
use super::tree::Tree;
use super::unpacked::Unpacked;
use crate::digest::Hasher;
use crate::limits::Limits;
use crate::{Digest, Error, Result};

/// A layer to unpack, and its expected digests.
pub(crate) struct Layer<'a> {
    /// Name of the layer and its image for messages.
    pub(crate) what: &'a str,
    /// Expected digest of the compressed bytes, if there is one.
    pub(crate) blob: Option<Digest>,
    /// Expected digest of the archive, if there is one.
    pub(crate) diff_id: Option<Digest>,
    /// Decryption options, if the bytes are encrypted.
    pub(crate) secret: Option<&'a Options>,
    /// Path and mode for the bytes, if they are a single file instead of an archive.
    pub(crate) file: Option<&'a AsIs>,
    /// Called when unpacking has finally failed, to stop a running download.
    pub(crate) abandon: &'a (dyn Fn() + Sync),
    /// Counter of the bytes of its files.
    pub(crate) spending: &'a dyn Spending,
    /// Memory account for its buffers and its decompression window.
    pub(crate) memory: &'a Arc<LayerMemory>,
}

/// A single file that forms a layer without an archive.
#[derive(Debug)]
pub(crate) struct AsIs {
    /// Path of the file in the layer.
    pub(crate) path: String,
    pub(crate) mode: u32,
    /// Size of the file.
    pub(crate) size: u64,
}

/// Unpacks a compressed layer into the empty directory `target`, and checks both digests. Blocks, and reads `input`
/// to its end.
pub(crate) fn unpack<J: RecordFiles>(
    layer: &Layer<'_>,
    input: impl Read + Send,
    record: J,
    target: &Path,
    limits: &Limits,
) -> Result<(Unpacked, J)> {
    let (unpacked, (), record) = unpack_to(layer, input, record, Tree::open(target)?, limits)?;
    Ok((unpacked, record))
}

/// Unpacks a compressed layer into an EROFS image. The caller finishes the image once the layers below are known.
pub(crate) fn pack<J: RecordFiles>(
    layer: &Layer<'_>,
    input: impl Read + Send,
    record: J,
    target: File,
    limits: &Limits,
) -> Result<(Unpacked, orlop_erofs::Image, J)> {
    let packed = Packed::create(target, limits)
        .map_err(|error| Error::io(format!("packing {}", layer.what), error))?;
    unpack_to(layer, input, record, packed, limits)
}

fn unpack_to<J: RecordFiles, T: Target>(
    layer: &Layer<'_>,
    input: impl Read + Send,
    record: J,
    target: T,
    limits: &Limits,
) -> Result<(Unpacked, T::Rest, J)> {
    let (feeder, mut drain) = pipe(Hasher::like(layer.diff_id.as_ref()));
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("decompress".to_owned());
        let decompressor = thread.spawn_scoped(scope, move || {
            let mut hashing = Hashing {
                input,
                hasher: Hasher::like(layer.blob.as_ref()),
            };
            let mut buffered = BufReader::with_capacity(128 << 10, &mut hashing);
            let opened = if let Some(secret) = layer.secret {
                let mut opened = BufReader::new(Plain::new(&mut buffered, secret));
                pump(feeder, layer, &mut opened);
                // Decryption verifies the data only at its end.
                read_out(&mut opened)
            } else {
                pump(feeder, layer, &mut buffered);
                Ok(())
            };
            // The digest also covers bytes after the compressed stream.
            let rest = read_out(&mut buffered);
            drop(buffered);
            rest.map(|()| (hashing.hasher.finish(), opened))
        });
        let decompressor = started(decompressor)
            .map_err(|error| Error::io("starting a decompression thread", error))?;
        let extracted = extract(
            layer.what,
            &mut drain,
            record,
            target,
            limits,
            layer.spending,
        );
        let read = match &extracted {
            Ok(_) => Some(drain.finish()),
            Err(error) => {
                // Without a reader, the decompressor only hashes the remaining bytes: a malformed archive may just be
                // a damaged download.
                drop(drain);
                if !matches!(error, Error::InvalidImage { .. }) {
                    (layer.abandon)();
                }
                None
            }
        };
        let blob = decompressor
            .join()
            .map_err(|_| Error::invalid(layer.what, "its decompressor failed"))?;
        // Check the compressed digest first: if the bytes are wrong, other errors follow from that.
        if let (Some(expected), Ok((actual, _))) = (layer.blob, &blob)
            && expected != *actual
        {
            return Err(Error::DigestMismatch {
                what: layer.what.to_owned(),
                expected: Box::new(expected),
                actual: Box::new(*actual),
            });
        }
        let is_malformed = matches!(extracted, Ok(_) | Err(Error::InvalidImage { .. }));
        if let (true, Ok((_, Err(error)))) = (is_malformed, &blob) {
            // The encryption does not vouch for these bytes, so their errors mean nothing.
            return Err(Error::invalid(layer.what, error));
        }
        let (mut unpacked, rest, record) = extracted?;
        let _ = blob.map_err(|error| Error::invalid(layer.what, error))?;
        if let Some((actual, bytes)) = read {
            unpacked.archive_bytes = bytes;
            unpacked.diff_id = Some(actual);
            if let Some(expected) = layer.diff_id.filter(|expected| *expected != actual) {
                let what = format!("the unpacked {}", layer.what);
                return Err(Error::DigestMismatch {
                    what,
                    expected: Box::new(expected),
                    actual: Box::new(actual),
                });
            }
        }
        Ok((unpacked, rest, record))
    })
}

fn pump(feeder: Feeder, layer: &Layer<'_>, bytes: impl BufRead) {
    match archive(layer, bytes) {
        Ok(plain) => feeder.pump(plain),
        Err(error) => feeder.pump(Failed(Some(error))),
    }
}

/// Reads to the end.
fn read_out(bytes: &mut impl BufRead) -> io::Result<()> {
    loop {
        match bytes.fill_buf()?.len() {
            0 => return Ok(()),
            length => bytes.consume(length),
        }
    }
}

/// Returns the layer's archive: the decompressed bytes, or a new archive around the single file.
fn archive<'a>(layer: &Layer<'_>, bytes: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let Some(file) = layer.file else {
        return decompress(bytes, layer.memory);
    };
    let size = file.size;
    let head = io::Cursor::new(head(file)?);
    // Padding to a whole block, then the two empty blocks that end an archive.
    let rest = size.next_multiple_of(512).saturating_sub(size) + 1024;
    let tail = io::repeat(0).take(rest);
    let claim = layer.memory.claim(0)?;
    Ok(claimed(head.chain(bytes.take(size)).chain(tail), claim))
}

/// Returns the archive header of a file.
fn head(file: &AsIs) -> io::Result<Vec<u8>> {
    let path = file.path.trim_start_matches('/');
    let mut header = tar::Header::new_ustar();
    let mut builder = tar::Builder::new(Vec::new());
    if header.set_path(path).is_err() {
        // Names that are too long for the header go into a pax extension.
        builder.append_pax_extensions([("path", path.as_bytes())])?;
        header.set_path("long")?;
    }
    header.set_size(file.size);
    header.set_mode(file.mode);
    header.set_cksum();
    // Copied without the end-of-archive blocks that the builder appends.
    let mut head = builder.get_ref().clone();
    head.extend_from_slice(header.as_bytes());
    Ok(head)
}

/// A reader that hashes the bytes it reads.
pub(super) struct Hashing<R> {
    pub(super) input: R,
    pub(super) hasher: Hasher,
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

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    /// An archive with entries of many kinds, whose blocks a test can permute.
    fn honest() -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(700);
        header.set_mode(0o644);
        builder
            .append_data(&mut header.clone(), "d/file", &[1; 700][..])
            .unwrap();
        builder
            .append_data(&mut header.clone(), "x/".repeat(70), &[2; 700][..])
            .unwrap();
        builder
            .append_pax_extensions([("path", &b"renamed"[..])])
            .unwrap();
        builder
            .append_data(&mut header, "f", &[3; 700][..])
            .unwrap();
        for (kind, name, target) in [
            (tar::EntryType::Symlink, "link", "../../.."),
            (tar::EntryType::Link, "hard", "d/file"),
            (tar::EntryType::Directory, "d", ""),
            (tar::EntryType::Regular, "d/.wh.gone", ""),
            (tar::EntryType::Fifo, "link/pipe", ""),
        ] {
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(kind);
            header.set_size(0);
            header.set_mode(0o700);
            if target.is_empty() {
                builder.append_data(&mut header, name, &[][..]).unwrap();
            } else {
                builder.append_link(&mut header, name, target).unwrap();
            }
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn a_file_of_any_length_and_name_stands_behind_a_header_that_is_understood() {
        let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
        for path in ["short", &long] {
            let size = 9 << 30;
            let head = head(&AsIs {
                path: path.to_owned(),
                mode: 0o644,
                size,
            })
            .unwrap();
            let mut archive = tar::Archive::new(&head[..]);
            let entry = archive.entries().unwrap().next().unwrap().unwrap();
            assert_eq!(entry.size(), size, "{path}");
            assert_eq!(entry.path_bytes(), path.as_bytes());
        }
    }

    /// Corrects the checksum of a block, so that damage is not detected by the checksum.
    fn sign(block: &mut [u8]) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn no_archive_panics_hangs_or_gets_out(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
            swaps in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..4),
            cut in any::<Option<prop::sample::Index>>(),
        ) {
            let mut archive = honest();
            for (a, b) in swaps {
                let blocks = archive.len() / 512;
                let (a, b) = (a.index(blocks) * 512, b.index(blocks) * 512);
                let (low, high) = (a.min(b), a.max(b));
                if low != high {
                    let (front, back) = archive.split_at_mut(high);
                    front[low..low + 512].swap_with_slice(&mut back[..512]);
                }
            }
            for (at, value) in changes {
                let at = at.index(archive.len());
                archive[at] = value;
                let block = at / 512 * 512;
                if archive.len() >= block + 512 {
                    sign(&mut archive[block..block + 512]);
                }
            }
            if let Some(cut) = cut {
                archive.truncate(cut.index(archive.len()));
            }
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("fs");
            std::fs::create_dir(&root).unwrap();
            let limits = Limits { layer_bytes: 1 << 20, ..Limits::default() };
            let layer = Layer { what: "layer", blob: None, diff_id: None, secret: None, file: None, abandon: &|| {}, spending: &(), memory: &LayerMemory::of_client() };
            let _ = unpack(&layer, Cursor::new(archive), (), &root, &limits);
            // Nothing may be created outside the layer.
            prop_assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }
}
