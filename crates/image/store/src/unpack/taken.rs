//! A layer that is an EROFS image already: it is checked, and stored unchanged.

use std::fs::File;
use std::io::{BufReader, Read, Write};

use orlop_erofs::read::{Census, Error as Fault, Limits as Bounds, Reader};

use super::decompress::decompress;
use super::layer::{Hashing, Layer};
use super::packed::OPAQUE;
use super::{Unpacked, attributes};
use crate::digest::Hasher;
use crate::limits::Limits;
use crate::{Digest, Error, Result};

/// Size of a read.
const PIECE: usize = 128 << 10;

/// Writes the image of a compressed or plain layer to an empty file, and checks both digests. Checks the image before
/// the kernel mounts it. Blocks, and reads `input` to its end.
pub(crate) fn take(
    layer: &Layer<'_>,
    input: impl Read,
    file: &mut File,
    limits: &Limits,
) -> Result<Unpacked> {
    let written = write(layer, input, file, limits).inspect_err(|_| (layer.abandon)())?;
    let census = judge(file, limits).map_err(|fault| match fault {
        Fault::Io(error) => Error::io(format!("reading {}", layer.what), error),
        fault @ (Fault::Unsupported(_) | Fault::NotErofs) => Error::Unsupported(format!(
            "{} cannot be used as an EROFS layer: {fault}",
            layer.what
        )),
        fault => Error::invalid(layer.what, fault),
    })?;
    tracing::debug!(
        what = layer.what,
        ?census,
        "the layer is an EROFS image already; using it without conversion"
    );
    Ok(Unpacked {
        diff_id: Some(written.digest),
        archive_bytes: written.bytes,
        bytes: written.bytes,
        // The disk space is counted when the file is sealed.
        disk_bytes: 0,
        inodes: 1,
        implicit: Vec::new(),
    })
}

struct Written {
    digest: Digest,
    bytes: u64,
}

fn write(layer: &Layer<'_>, input: impl Read, file: &mut File, limits: &Limits) -> Result<Written> {
    let failed = |error| Error::invalid(layer.what, error);
    let mut stored = Hashing {
        input,
        hasher: Hasher::like(layer.blob.as_ref()),
    };
    let plain = copy(layer, &mut stored, file, limits);
    let plain = match plain {
        Err(Error::InvalidImage { .. }) | Ok(_) => plain,
        other => return other,
    };
    // The digest also covers bytes after the compressed stream. Data that cannot be decompressed may just be a
    // damaged download.
    std::io::copy(&mut &mut stored, &mut std::io::sink()).map_err(failed)?;
    is_promised(layer.what.to_owned(), layer.blob, stored.hasher.finish())?;
    let plain = plain?;
    let what = format!("the unpacked {}", layer.what);
    is_promised(what, layer.diff_id, plain.digest)?;
    Ok(plain)
}

fn copy<R: Read>(
    layer: &Layer<'_>,
    stored: &mut Hashing<R>,
    file: &mut File,
    limits: &Limits,
) -> Result<Written> {
    let failed = |error| Error::invalid(layer.what, error);
    let mut hasher = Hasher::like(layer.diff_id.as_ref());
    let mut bytes = 0;
    let mut plain =
        decompress(BufReader::with_capacity(PIECE, stored), layer.memory).map_err(failed)?;
    let mut piece = vec![0; PIECE];
    loop {
        let read = plain.read(&mut piece).map_err(failed)?;
        if read == 0 {
            let digest = hasher.finish();
            return Ok(Written { digest, bytes });
        }
        bytes += read as u64;
        if bytes > limits.layer_bytes {
            let limit = format!("{} bytes", limits.layer_bytes);
            return Err(Error::too_large(
                format!("the unpacked {}", layer.what),
                limit,
            ));
        }
        layer.spending.spend(read as u64)?;
        hasher.update(&piece[..read]);
        file.write_all(&piece[..read])
            .map_err(|error| Error::io(format!("writing {}", layer.what), error))?;
    }
}

fn is_promised(what: String, expected: Option<Digest>, actual: Digest) -> Result<()> {
    match expected {
        Some(expected) if expected != actual => Err(Error::DigestMismatch {
            what,
            expected: Box::new(expected),
            actual: Box::new(actual),
        }),
        _ => Ok(()),
    }
}

/// Checks the whole image, and refuses attributes that images must not contain.
fn judge(file: &File, limits: &Limits) -> Result<Census, Fault> {
    let reader = Reader::open(file.try_clone()?)?;
    let bounds = Bounds {
        entries: limits.layer_entries.min(Bounds::default().entries),
        ..Bounds::default()
    };
    reader.check_each(bounds, &mut |inode, xattrs| {
        let is_directory = inode.kind() == orlop_erofs::Kind::Directory;
        let fits = xattrs.iter().all(|(name, value)| {
            attributes::is_wanted(name) || is_directory && name == OPAQUE && value == b"y"
        });
        fits.then_some(())
            .ok_or(Fault::Unsupported("attributes that only the host may set"))
    })
}
