//! Detects the compression of a layer by its first bytes, because media types are often wrong.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use super::memory::{Claim, LayerMemory};
use super::zstd_frames::{Frames, is_start};

/// Memory for the window and tables of gzip.
const GZIP: u64 = 64 << 10;

/// Opens `input` with the decompressor that matches its first bytes. Blocks until there is memory for it.
pub(super) fn decompress<'a, R: BufRead + 'a>(
    mut input: R,
    memory: &Arc<LayerMemory>,
) -> io::Result<Box<dyn Read + 'a>> {
    let start = input.fill_buf()?;
    if start.starts_with(&[0x1f, 0x8b]) {
        let claim = memory.claim(GZIP)?;
        Ok(claimed(flate2::bufread::MultiGzDecoder::new(input), claim))
    } else if is_start(start) {
        Ok(Box::new(Frames::new(input, Arc::clone(memory))?))
    } else {
        let claim = memory.claim(0)?;
        Ok(claimed(input, claim))
    }
}

/// Wraps a reader together with the memory that it uses.
pub(super) fn claimed<'a>(reader: impl Read + 'a, claim: Claim) -> Box<dyn Read + 'a> {
    Box::new(Claimed {
        reader,
        _claim: claim,
    })
}

struct Claimed<R> {
    reader: R,
    _claim: Claim,
}

impl<R: Read> Read for Claimed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reader.read(into)
    }
}
