//! Bounds-checked numbers in bytes.

/// Returns the 16-bit number at an offset.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let found = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_le_bytes(*found))
}

/// Returns the 32-bit number at an offset.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let found = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*found))
}

/// Returns the 64-bit number at an offset.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let found = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*found))
}
