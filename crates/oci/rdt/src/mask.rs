//! Bit masks of cache ways.

/// Returns the bits from one number to another, both inclusive.
pub(crate) fn block(from: u32, to: u32) -> u64 {
    let upto = |bits: u32| 1_u64.checked_shl(bits).map_or(u64::MAX, |bit| bit - 1);
    upto(to.saturating_add(1)) & !upto(from)
}

/// Returns the number of bits up to the highest one set.
pub(crate) fn width(mask: u64) -> u32 {
    u64::BITS - mask.leading_zeros()
}

/// Returns whether the set bits are contiguous, and there is at least one.
pub(crate) fn is_block(mask: u64) -> bool {
    mask != 0 && mask == block(mask.trailing_zeros(), width(mask) - 1)
}

/// Returns the longest contiguous run of set bits; 0 if there is none.
pub(crate) fn widest(mask: u64) -> u64 {
    let mut left = mask;
    let mut found = 0_u64;
    while left != 0 {
        let from = left.trailing_zeros();
        let run = block(from, from + (left >> from).trailing_ones() - 1);
        if run.count_ones() > found.count_ones() {
            found = run;
        }
        left &= !run;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_told_from_others() {
        assert_eq!(block(0, 3), 0xf);
        assert_eq!(block(4, 4), 0x10);
        assert_eq!(block(0, 63), u64::MAX);
        assert_eq!(block(63, 63), 1 << 63);
        assert_eq!(widest(0b1101_1101), 0b1_1100);
        assert_eq!((widest(0), widest(u64::MAX)), (0, u64::MAX));
        for whole in [1, 0xf0, u64::MAX, 1 << 63] {
            assert!(is_block(whole), "{whole:x}");
        }
        for other in [0, 0b101, 0xf00f] {
            assert!(!is_block(other), "{other:x}");
        }
    }
}
