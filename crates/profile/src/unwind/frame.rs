//! An entry of `.eh_frame`: of one function, how its caller is found from each of its instructions.

use super::index::pointer;
use super::memory::Memory;
use crate::bytes::Bytes;
use crate::elf::Source as _;

/// No entry is longer.
const LONGEST: u32 = 64 << 10;
/// `DW_EH_PE_omit`.
const OMIT: u8 = 0xff;

/// An entry (`FDE`), with what it shares with others (`CIE`).
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) common: Common,
    pub(super) program: Vec<u8>,
}

/// What functions have in common.
#[derive(Debug, Default)]
pub(super) struct Common {
    pub(super) code_step: u64,
    pub(super) data_step: i64,
    /// The register that holds where the caller goes on.
    pub(super) returns: u64,
    /// It is the kernel that called: the place is the next instruction, not one after a call.
    pub(super) is_signal: bool,
    pub(super) program: Vec<u8>,
    pub(super) pointers: u8,
    pub(super) is_augmented: bool,
}

impl Frame {
    /// Reads the entry at an address.
    pub(super) fn read(memory: &Memory, at: u64) -> Option<Self> {
        let body = body(memory, at)?;
        let here = at.wrapping_add(4);
        let mut bytes = Bytes(&body);
        let back = bytes.u32()?;
        (back != 0).then_some(())?;
        let common = Common::read(memory, here.wrapping_sub(back.into()))?;
        let start = pointer(&mut bytes, common.pointers, here.wrapping_add(4), 0)?;
        let length = pointer(&mut bytes, common.pointers & 0x0f, 0, 0)?;
        if common.is_augmented {
            let length = bytes.uleb()?;
            bytes.take(usize::try_from(length).ok()?)?;
        }
        Some(Self {
            start,
            end: start.checked_add(length)?,
            common,
            program: bytes.0.to_owned(),
        })
    }
}

impl Common {
    fn read(memory: &Memory, at: u64) -> Option<Self> {
        let body = body(memory, at)?;
        let mut bytes = Bytes(&body);
        let (id, version) = (bytes.u32()?, bytes.u8()?);
        (id == 0 && matches!(version, 1 | 3)).then_some(())?;
        let augmentation = bytes.text()?;
        let mut common = Self {
            code_step: bytes.uleb()?,
            data_step: bytes.sleb()?,
            returns: match version {
                1 => bytes.u8()?.into(),
                _ => bytes.uleb()?,
            },
            ..Self::default()
        };
        if let Some(letters) = augmentation.strip_prefix(b"z") {
            let length = usize::try_from(bytes.uleb()?).ok()?;
            let mut data = Bytes(bytes.take(length)?);
            common.is_augmented = true;
            for letter in letters {
                match letter {
                    b'R' => common.pointers = data.u8()?,
                    b'L' => drop(data.u8()?),
                    b'P' => skip_pointer(&mut data)?,
                    b'S' => common.is_signal = true,
                    // Return addresses are signed with the other key.
                    b'B' => {}
                    _ => return None,
                }
            }
        } else if !augmentation.is_empty() {
            return None;
        }
        bytes.0.clone_into(&mut common.program);
        Some(common)
    }
}

fn skip_pointer(data: &mut Bytes<'_>) -> Option<()> {
    let encoding = data.u8()?;
    if encoding != OMIT {
        // Where it leads does not matter here, nor how.
        pointer(data, encoding & 0x0f, 0, 0)?;
    }
    Some(())
}

/// What is behind an entry's length.
fn body(memory: &Memory, at: u64) -> Option<Vec<u8>> {
    let length = Bytes(&memory.bytes(at, 4)?).u32()?;
    (length != 0 && length <= LONGEST).then_some(())?;
    memory.bytes(at.checked_add(4)?, length as usize)
}
