//! Checkpoints: positions where decompression of a layer's gzip stream can start.
//!
//! A byte string in a ztoc contains the number of checkpoints (4) and their distance (8). Each checkpoint has the
//! offset of its first whole byte in the layer (8), the offset in the archive (8), the number of bits of the previous
//! byte that belong to it (1), and the window, which is the 32 KiB of the archive before it. An older form omits the
//! first checkpoint, which is after a gzip header of 10 bytes. All numbers are little endian.

use crate::error::at_most;
use crate::window::{WINDOW, Window};
use crate::{Error, Limits, Result};

const HEADER: usize = 4 + 8;
const PACKED: usize = 8 + 8 + 1 + WINDOW;
/// Minimum size of a gzip header (RFC 1952).
const GZIP_HEADER: u64 = 10;
static NOTHING: Window = [0; WINDOW];

/// A position where decompression of a layer can start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checkpoint<'a> {
    pub(super) offset: u64,
    pub(super) out: u64,
    pub(super) bits: u8,
    pub(super) window: &'a Window,
}

/// Parses the checkpoints of a layer of the given size.
pub(super) fn read<'a>(
    bytes: &'a [u8],
    layer: u64,
    limits: &Limits,
) -> Result<Vec<Checkpoint<'a>>> {
    let bad = Error::Ztoc;
    let count = bytes.first_chunk().ok_or(bad("it has no checkpoints"))?;
    let count = u32::from_le_bytes(*count);
    at_most("spans", count.into(), limits.chunks.into())?;
    let packed = bytes.get(HEADER..).ok_or(bad("it has no checkpoints"))?;
    let (told, rest) = packed.as_chunks::<PACKED>();
    let missing = (count as usize).wrapping_sub(told.len());
    if count == 0 || missing > 1 || !rest.is_empty() {
        return Err(bad("the number of its checkpoints is wrong"));
    }
    let first = (missing == 1).then_some(Checkpoint {
        offset: GZIP_HEADER,
        out: 0,
        bits: 0,
        window: &NOTHING,
    });
    let all: Vec<_> = first.into_iter().chain(told.iter().map(unpack)).collect();
    if all[0].out != 0 || all[0].bits != 0 || all[0].offset < GZIP_HEADER {
        return Err(bad("its first checkpoint is not at the beginning"));
    }
    for pair in all.windows(2) {
        // If the first members are empty, all of them are at the archive's start.
        let apart = pair[1].out > pair[0].out || pair[1].out == 0;
        if pair[1].offset <= pair[0].offset || !apart {
            return Err(bad("its checkpoints are not in order"));
        }
    }
    if all.iter().any(|at| at.offset > layer || at.bits > 7) {
        return Err(bad("a checkpoint is outside of the layer"));
    }
    Ok(all)
}

fn unpack(packed: &[u8; PACKED]) -> Checkpoint<'_> {
    let number = |at: usize| {
        let bytes = packed[at..].first_chunk().unwrap_or(&[0; 8]);
        u64::from_le_bytes(*bytes)
    };
    Checkpoint {
        offset: number(0),
        out: number(8),
        bits: packed[16],
        window: packed.last_chunk().unwrap_or(&NOTHING),
    }
}
