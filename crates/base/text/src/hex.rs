//! Lower-case hexadecimal encoding.

/// Encodes bytes with two digits each.
pub fn encode(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 0xf])
        .filter_map(|digit| char::from_digit(u32::from(digit), 16))
        .collect()
}

/// Decodes a text of exactly `N` bytes.
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !is_hex(text) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}

/// Returns whether a text consists of such digits only.
pub fn is_hex(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_their_digits() {
        let bytes: [u8; 256] = std::array::from_fn(|at| at as u8);
        let text = encode(&bytes);
        assert!(
            text.starts_with("000102") && text.ends_with("fdfeff"),
            "{text}"
        );
        assert_eq!(decode(&text), Some(bytes));
    }

    #[test]
    fn what_is_not_so_many_lower_case_digits_is_refused() {
        for text in ["", "0a0", "0a0b0c", "0A0b", "+a0b", "0a0g", "\u{e4}0b"] {
            assert_eq!(decode::<2>(text), None, "{text}");
        }
        assert_eq!(decode("0a0b"), Some([10, 11]));
    }
}
