//! Layer compression, told from the bytes: media types are often wrong.

use std::io::{self, BufRead, Read};

/// Opens `input` with the decompressor that its first bytes call for.
pub(super) fn decompress<'a, R: BufRead + 'a>(mut input: R) -> io::Result<Box<dyn Read + 'a>> {
    let start = input.fill_buf()?;
    if start.starts_with(&[0x1f, 0x8b]) {
        Ok(Box::new(flate2::bufread::MultiGzDecoder::new(input)))
    } else if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || is_skippable_frame(start) {
        Ok(Box::new(zstd::stream::read::Decoder::with_buffer(input)?))
    } else {
        Ok(Box::new(input))
    }
}

/// RFC 8878, "Skippable Frames": zstd:chunked layers may start with one.
fn is_skippable_frame(start: &[u8]) -> bool {
    matches!(start, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}
