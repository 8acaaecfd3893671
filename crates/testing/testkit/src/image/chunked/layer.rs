//! A packed layer with its annotations.

use super::order::ordered;
use super::{Chunked, ChunkedWriter, Cut};
use crate::image::entries::entries;
use crate::image::{Layer, compression};

/// A layer that supports lazy pulling.
#[derive(Debug, Clone)]
pub struct ChunkedLayer {
    /// Format of the layer.
    pub form: Chunked,
    /// Compressed layer.
    pub bytes: Vec<u8>,
    /// Annotations with the position of its table of contents.
    pub annotations: Vec<(String, String)>,
    /// Digest of the uncompressed archive.
    pub diff_id: String,
    /// Size of the uncompressed archive.
    pub uncompressed: u64,
}

impl ChunkedLayer {
    /// Packs any archive.
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

    /// Returns the uncompressed archive.
    pub fn archive(&self) -> Vec<u8> {
        compression::unpack(&self.bytes, self.form.compression())
    }
}

impl Layer {
    /// Packs the layer for lazy pulling.
    pub fn chunked(self, form: Chunked, cut: &Cut) -> ChunkedLayer {
        ChunkedLayer::of(&self.tar(), form, cut)
    }
}
