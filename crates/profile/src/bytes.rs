//! Numbers in the bytes of ELF and DWARF, in the order of this machine.

/// What is left to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_ne_bytes(self.take(2)?.try_into().ok()?))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        Some(i32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }

    /// An unsigned number in LEB128. What does not fit is cut off.
    pub(crate) fn uleb(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0, 0_u32);
        loop {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift = shift.saturating_add(7);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }

    /// A signed number in LEB128.
    pub(crate) fn sleb(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0_u64, 0_u32);
        loop {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift = shift.saturating_add(7);
            if byte & 0x80 == 0 {
                let negative = byte & 0x40 != 0;
                let above = u64::MAX.checked_shl(shift).unwrap_or(0);
                return Some((if negative { value | above } else { value }) as i64);
            }
        }
    }

    /// Bytes up to a zero, which is taken, too.
    pub(crate) fn text(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let taken = self.take(end)?;
        self.take(1)?;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_leb128_are_as_the_standard_has_them() {
        // DWARF 5, 7.6.
        let unsigned: [(u64, &[u8]); 4] = [
            (2, &[2]),
            (127, &[127]),
            (128, &[0x80, 1]),
            (12857, &[0xb9, 0x64]),
        ];
        for (value, bytes) in unsigned {
            assert_eq!(Bytes(bytes).uleb(), Some(value));
        }
        let signed: [(i64, &[u8]); 5] = [
            (2, &[2]),
            (63, &[0x3f]),
            (-2, &[0x7e]),
            (-128, &[0x80, 0x7f]),
            (129, &[0x81, 1]),
        ];
        for (value, bytes) in signed {
            assert_eq!(Bytes(bytes).sleb(), Some(value));
        }
        assert_eq!(Bytes(&[0x80; 100]).uleb(), None, "it has no end");
        assert_eq!(Bytes(&[0xff; 100]).sleb(), None);
        let mut long = [0xff; 100];
        long[99] = 0x7f;
        assert_eq!(Bytes(&long).sleb(), Some(-1));
    }
}
