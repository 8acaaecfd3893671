//! Maps of sparse files: old GNU headers and the pax variants.

use super::entry::Segment;
use super::header::{BLOCK, number};
use super::pax::decimal;

/// Maximum number of map entries. Only a malicious archive has more.
const MAX_SEGMENTS: usize = 1 << 20;

/// Reads the map entries of an old GNU header or extension block. The first empty entry
/// ends the map.
pub(super) fn gnu_entries(bytes: &[u8], into: &mut Vec<Segment>) -> Result<(), String> {
    for pair in bytes.chunks_exact(24) {
        if pair[0] == 0 || pair[12] == 0 {
            break;
        }
        let read = |field| {
            number(field)
                .and_then(|value| u64::try_from(value).ok())
                .ok_or("a sparse map is malformed")
        };
        into.push(Segment {
            offset: read(&pair[..12])?,
            length: read(&pair[12..])?,
        });
    }
    if into.len() > MAX_SEGMENTS {
        Err("a sparse map is too long".to_owned())
    } else {
        Ok(())
    }
}

/// Parses a pax 1.0 map, which precedes the data as lines of decimal numbers padded to whole blocks. Returns `None`
/// if `text` is incomplete.
pub(super) fn pax_map(text: &[u8]) -> Result<Option<Vec<Segment>>, String> {
    let wrong = || "a sparse map is malformed".to_owned();
    let mut lines = text.split(|byte| *byte == b'\n');
    // The text after the last newline may be an incomplete number.
    let complete = text.split(|byte| *byte == b'\n').count() - 1;
    if complete == 0 {
        return if text.len() > 32 {
            Err(wrong())
        } else {
            Ok(None)
        };
    }
    let entries = lines.next().and_then(decimal).ok_or_else(wrong)?;
    let entries = usize::try_from(entries)
        .ok()
        .filter(|n| *n <= MAX_SEGMENTS)
        .ok_or_else(wrong)?;
    if complete < 1 + 2 * entries {
        return Ok(None);
    }
    let mut next = || lines.next().and_then(decimal).ok_or_else(wrong);
    let mut map = Vec::with_capacity(entries);
    for _ in 0..entries {
        map.push(Segment {
            offset: next()?,
            length: next()?,
        });
    }
    Ok(Some(map))
}

/// Checks that a map is ascending, within `size`, and covers exactly `stored` bytes.
pub(super) fn check(map: &[Segment], size: u64, stored: u64) -> Result<(), String> {
    let mut end = 0_u64;
    let mut total = 0_u64;
    for segment in map {
        let next = segment.offset.checked_add(segment.length);
        if segment.offset < end || next.is_none_or(|next| next > size) {
            return Err("a sparse map has overlapping parts or parts beyond the file".to_owned());
        }
        end = next.unwrap_or(end);
        total += segment.length;
    }
    if total == stored {
        Ok(())
    } else {
        Err(format!(
            "a sparse map covers {total} bytes, but the archive has {stored}"
        ))
    }
}

/// Extension blocks hold 21 entries and a flag.
pub(super) const GNU_EXTENSION_ENTRIES: usize = 21 * 24;

/// Returns whether another extension block follows this one.
pub(super) fn gnu_more(block: &[u8; BLOCK]) -> bool {
    block[GNU_EXTENSION_ENTRIES] != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pax_maps_are_read_when_complete() {
        assert_eq!(pax_map(b"2\n0\n5\n1"), Ok(None));
        assert_eq!(
            pax_map(b"2\n0\n5\n10\n3\n\0\0"),
            Ok(Some(vec![
                Segment {
                    offset: 0,
                    length: 5
                },
                Segment {
                    offset: 10,
                    length: 3
                }
            ]))
        );
        assert!(pax_map(b"99999999999\n").is_err());
        assert!(pax_map(&[b'1'; 40]).is_err());
    }

    #[test]
    fn impossible_maps_are_refused() {
        let at = |offset, length| Segment { offset, length };
        assert!(check(&[at(0, 5), at(10, 3)], 20, 8).is_ok());
        assert!(check(&[at(0, 5), at(4, 3)], 20, 8).is_err());
        assert!(check(&[at(18, 5)], 20, 5).is_err());
        assert!(check(&[at(u64::MAX, 5)], u64::MAX, 5).is_err());
        assert!(check(&[at(0, 5)], 20, 6).is_err());
    }
}
