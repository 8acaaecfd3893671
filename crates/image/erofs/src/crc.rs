//! CRC-32C as the superblock uses it: reflected, starting with ones, not inverted at the end.

const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Computes the checksum of some bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (POLYNOMIAL & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        // The published check value of CRC-32C, which is inverted at the end.
        assert_eq!(!crc32c(b"123456789"), 0xe306_9283);
    }
}
