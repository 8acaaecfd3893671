//! Writer of consecutive gzip members or Zstandard frames.

use flate2::{Compress, Crc, FlushCompress, Status};

use crate::image::Compression;

/// gzip header without name and time, with an unknown operating system (RFC 1952).
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// Compressor for all members of a layer. Its state is large, so it is reused.
#[allow(
    missing_debug_implementations,
    reason = "a compressor has nothing to show"
)]
pub(super) enum Packer {
    Gzip(Compress),
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Packer {
    pub(super) fn new(form: Compression, level: u32) -> Self {
        if form == Compression::Gzip {
            return Self::Gzip(Compress::new(flate2::Compression::new(level), false));
        }
        let level = i32::try_from(level).expect("a level of compression");
        Self::Zstd(zstd::bulk::Compressor::new(level).expect("make a compressor"))
    }

    /// Appends a separate member or frame.
    pub(super) fn pack(&mut self, content: &[u8], to: &mut Vec<u8>) {
        match self {
            Self::Gzip(deflate) => member(deflate, content, to),
            Self::Zstd(packer) => to.extend(packer.compress(content).expect("compress in memory")),
        }
    }
}

fn member(deflate: &mut Compress, content: &[u8], to: &mut Vec<u8>) {
    to.extend(HEADER);
    deflate.reset();
    let mut room = [0; 16 << 10];
    loop {
        let (taken, made) = (deflate.total_in() as usize, deflate.total_out());
        let status = deflate.compress(&content[taken..], &mut room, FlushCompress::Finish);
        to.extend(&room[..(deflate.total_out() - made) as usize]);
        if status.expect("compress in memory") == Status::StreamEnd {
            break;
        }
    }
    let mut checksum = Crc::new();
    checksum.update(content);
    to.extend(checksum.sum().to_le_bytes());
    to.extend(checksum.amount().to_le_bytes());
}
