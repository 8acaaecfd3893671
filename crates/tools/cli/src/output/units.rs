//! Sizes and IDs for people.

const UNITS: [&str; 9] = ["B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"];

/// Number of characters of an ID to show.
const SHORT: usize = 13;

/// Formats a size with four digits.
pub(crate) fn bytes(size: u64) -> String {
    scaled(size, 4)
}

/// Formats a size with three digits.
pub(crate) fn short_bytes(size: u64) -> String {
    scaled(size, 3)
}

/// Returns the start of an ID, without the name of the digest algorithm.
pub(crate) fn short_id(id: &str) -> &str {
    let id = id.strip_prefix("sha256:").unwrap_or(id);
    match id.char_indices().nth(SHORT) {
        Some((end, _)) => &id[..end],
        None => id,
    }
}

fn scaled(size: u64, digits: usize) -> String {
    let mut number = size as f64;
    let mut unit = 0;
    while number >= 1000.0 && unit + 1 < UNITS.len() {
        number /= 1000.0;
        unit += 1;
    }
    let mut text = significant(number, digits);
    if text == "1000" && unit + 1 < UNITS.len() {
        "1".clone_into(&mut text);
        unit += 1;
    }
    format!("{text}{}", UNITS[unit])
}

/// Formats a number below 1000 with this many digits, without trailing zeros.
fn significant(number: f64, digits: usize) -> String {
    let whole = if number < 1.0 {
        1
    } else {
        number.log10().floor() as usize + 1
    };
    let text = format!("{number:.*}", digits.saturating_sub(whole));
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_few_digits() {
        assert_eq!(short_bytes(0), "0B");
        assert_eq!(short_bytes(512), "512B");
        assert_eq!(short_bytes(1_460_000), "1.46MB");
        assert_eq!(short_bytes(314_160_000), "314MB");
        assert_eq!(short_bytes(999_999), "1MB");
        assert_eq!(short_bytes(10_000_000), "10MB");
        assert_eq!(bytes(31_415_926), "31.42MB");
        assert_eq!(bytes(4096), "4.096kB");
    }

    #[test]
    fn ids_are_cut() {
        assert_eq!(short_id("sha256:0123456789abcdef0"), "0123456789abc");
        assert_eq!(short_id("0123456789abcdef0"), "0123456789abc");
        assert_eq!(short_id("abc"), "abc");
    }
}
