//! Compression and decompression of archives.

use std::io::{Read as _, Write as _};

/// Compression of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    Plain,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

pub(super) fn pack(tar: &[u8], compression: Compression, effort: u32) -> Vec<u8> {
    match compression {
        Compression::Plain => tar.to_vec(),
        Compression::Gzip => {
            let level = flate2::Compression::new(effort);
            let mut packer = flate2::GzBuilder::new().mtime(0).write(Vec::new(), level);
            packer
                .write_all(tar)
                .and_then(|()| packer.finish())
                .expect("compress in memory")
        }
        Compression::Zstd => zstd::encode_all(tar, 1).expect("compress in memory"),
    }
}

/// Returns the archive of a layer.
pub(super) fn unpack(layer: &[u8], compression: Compression) -> Vec<u8> {
    let mut tar = Vec::new();
    let read = match compression {
        Compression::Plain => return layer.to_vec(),
        Compression::Gzip => flate2::bufread::MultiGzDecoder::new(layer).read_to_end(&mut tar),
        Compression::Zstd => zstd::stream::read::Decoder::with_buffer(layer)
            .and_then(|mut decoder| decoder.read_to_end(&mut tar)),
    };
    read.expect("decompress in memory");
    tar
}
