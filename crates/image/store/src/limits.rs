//! Limits on what an image may request.

/// Limits on the size and structure of an image.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of one manifest, index or configuration.
    pub manifest_bytes: u64,
    /// Number of layers of one image. Overlay mounts support at most 500.
    pub layers: usize,
    /// Bytes of one image: its compressed layers and their unpacked content together.
    pub image_bytes: u64,
    /// Compressed bytes of one layer.
    pub blob_bytes: u64,
    /// Unpacked bytes of one layer.
    pub layer_bytes: u64,
    /// Number of files of one layer.
    pub layer_entries: u64,
    /// Bytes of one tar entry's extended header or long name.
    pub header_bytes: u64,
    /// Bytes of one layer's archive that are not file content: headers, padding and data after the end of the
    /// archive.
    pub overhead_bytes: u64,
    /// Bytes of memory for the directories of a layer, which are remembered until its end.
    pub bookkeeping_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            manifest_bytes: 4 << 20,
            layers: 500,
            image_bytes: 256 << 30,
            blob_bytes: 256 << 30,
            layer_bytes: 512 << 30,
            layer_entries: 8_000_000,
            header_bytes: 1 << 20,
            overhead_bytes: 16 << 30,
            bookkeeping_bytes: 32 << 20,
        }
    }
}
