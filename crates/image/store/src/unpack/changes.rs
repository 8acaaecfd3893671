//! Unpacks a container's changes from an archive into its writable layer.

use std::io::{BufReader, Read};
use std::path::Path;

use super::decompress::decompress;
use super::extract::extract;
use super::memory::LayerMemory;
use super::tree::Tree;
use crate::limits::Limits;
use crate::{Error, Result};

/// Size of the read buffer of an archive.
const BUFFER: usize = 128 << 10;

/// Unpacks an archive of changes, which has the format of a layer, into the writable layer `target`, which must be
/// empty. Blocks.
pub fn unpack_changes(
    what: &str,
    archive: impl Read,
    target: &Path,
    limits: &Limits,
) -> Result<()> {
    let plain = plain(what, archive)?;
    extract(
        what,
        BufReader::with_capacity(BUFFER, plain),
        (),
        Tree::open(target)?,
        limits,
        &(),
    )
    .map(drop)
}

/// Returns a reader of the archive that decompresses it if necessary. Blocks.
pub fn plain<'a>(what: &str, archive: impl Read + 'a) -> Result<Box<dyn Read + 'a>> {
    let archive = BufReader::with_capacity(BUFFER, archive);
    decompress(archive, &LayerMemory::of_client()).map_err(|error| Error::invalid(what, error))
}
