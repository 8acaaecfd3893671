//! The index of what says how to unwind (`.eh_frame_hdr`): from a place in the program to its entry.

use super::memory::Memory;
use crate::bytes::Bytes;
use crate::elf::Source as _;

/// `DW_EH_PE_datarel | DW_EH_PE_sdata4`, which every linker writes: both numbers count from the index.
const FROM_INDEX: u8 = 0x3b;

/// An index, in the order of the places.
#[derive(Debug)]
pub(super) struct Index {
    at: u64,
    bytes: Vec<u8>,
    /// Where its table begins.
    table: usize,
    count: usize,
}

impl Index {
    pub(super) fn read(memory: &Memory, at: u64, size: u64) -> Option<Self> {
        let bytes = memory.bytes(at, usize::try_from(size).ok()?)?;
        let mut head = Bytes(&bytes);
        let (version, frames, count, table) = (head.u8()?, head.u8()?, head.u8()?, head.u8()?);
        (version == 1 && table == FROM_INDEX).then_some(())?;
        pointer(&mut head, frames, at.wrapping_add(4), at)?;
        let said = pointer(&mut head, count, at, at)?;
        let table = bytes.len() - head.0.len();
        let count = usize::try_from(said).ok()?.min(head.0.len() / 8);
        Some(Self {
            at,
            bytes,
            table,
            count,
        })
    }

    /// Where the entry is whose function may hold the place.
    pub(super) fn find(&self, place: u64) -> Option<u64> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if self.row(middle)?.0 <= place {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(self.row(low.checked_sub(1)?)?.1)
    }

    fn row(&self, number: usize) -> Option<(u64, u64)> {
        let mut row = Bytes(self.bytes.get(self.table + number * 8..)?);
        let mut next = || Some(self.at.wrapping_add_signed(i64::from(row.i32()?)));
        Some((next()?, next()?))
    }
}

/// A pointer as `DW_EH_PE_*` encodes it, `here` being where it stands. None of those that are to be
/// followed: only who handles panics needs them.
pub(super) fn pointer(bytes: &mut Bytes<'_>, encoding: u8, here: u64, index: u64) -> Option<u64> {
    let value = match encoding & 0x0f {
        0x00 | 0x04 | 0x0c => bytes.u64()?,
        0x01 => bytes.uleb()?,
        0x02 => bytes.u16()?.into(),
        0x03 => bytes.u32()?.into(),
        0x09 => bytes.sleb()? as u64,
        0x0a => i64::from(bytes.u16()? as i16) as u64,
        0x0b => i64::from(bytes.i32()?) as u64,
        _ => return None,
    };
    match encoding & 0x70 {
        0x00 => Some(value),
        0x10 => Some(value.wrapping_add(here)),
        0x30 => Some(value.wrapping_add(index)),
        _ => None,
    }
}
