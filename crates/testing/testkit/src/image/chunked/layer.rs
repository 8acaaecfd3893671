//! A layer that was packed, and what a manifest says of it.

use super::order::ordered;
use super::{Chunked, ChunkedWriter, Cut};
use crate::image::entries::entries;
use crate::image::{Layer, compression};

/// A layer that can be fetched bit by bit.
#[derive(Debug, Clone)]
pub struct ChunkedLayer {
    /// Its form.
    pub form: Chunked,
    /// It, as it travels.
    pub bytes: Vec<u8>,
    /// What its descriptor says of its table of contents.
    pub annotations: Vec<(String, String)>,
    /// The digest of the whole archive.
    pub diff_id: String,
    /// Bytes of the whole archive.
    pub uncompressed: u64,
}

impl ChunkedLayer {
    /// Packs an archive: one that was written here, or any other.
    pub fn of(archive: &[u8], form: Chunked, cut: &Cut) -> Self {
        let mut writer = ChunkedWriter::new(form, cut);
        let entries = entries(archive);
        let landmark = cut.landmarks && form != Chunked::ZstdChunked;
        if landmark && cut.first.is_empty() {
            writer.nothing_wanted();
        }
        let (first, rest) = ordered(&entries, &cut.first);
        for entry in &first {
            writer.entry(archive, entry);
        }
        if landmark && !first.is_empty() {
            writer.wanted_soon();
        }
        for entry in &rest {
            writer.entry(archive, entry);
        }
        writer.finish()
    }

    /// The archive that it is when all of it is unpacked.
    pub fn archive(&self) -> Vec<u8> {
        compression::unpack(&self.bytes, self.form.compression())
    }
}

impl Layer {
    /// The layer, packed so that it can be fetched bit by bit.
    pub fn chunked(self, form: Chunked, cut: &Cut) -> ChunkedLayer {
        ChunkedLayer::of(&self.tar(), form, cut)
    }
}
