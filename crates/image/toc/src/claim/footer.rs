//! Footer of a layer, which contains the position of its table of contents.
//!
//! An eStargz layer ends with an empty gzip member (RFC 1952) of 51 bytes. Its extra field has a subfield `SG` of 16
//! hexadecimal digits and `STARGZ`; the digits are the offset of the table's own gzip member. In an older form of 47
//! bytes, the extra field is only those 22 bytes. A third form, of 46 bytes, says that the table is elsewhere.
//!
//! A zstd:chunked layer ends with a skippable frame: 64-bit numbers, little endian, and 8 bytes of magic. The numbers
//! are offset, length, uncompressed length and type of the table. In the newer form, offset, length and uncompressed
//! length of a record of the archive's headers follow, which is not needed here.

use std::ops::Range;

use super::position::Position;
use crate::{Error, Result};

/// Size of the longest footer: that of zstd:chunked with its frame's header.
pub(crate) const LONGEST: u64 = FRAME_HEADER + 64;
/// Header of a skippable frame: magic and length (RFC 8878, 3.1.2).
pub(crate) const FRAME_HEADER: u64 = 8;
const SKIPPABLE: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];

const ESTARGZ: usize = 51;
const STARGZ: usize = 47;
const EXTERNAL: usize = 46;

/// A gzip header: deflate, with an extra field and no time. The next two bytes are ignored.
const GZIP: [u8; 8] = [0x1f, 0x8b, 8, 4, 0, 0, 0, 0];
/// One empty stored block, which is the last one; then checksum and size.
const NOTHING: [u8; 13] = [1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];

/// Locates the table of contents of an eStargz layer of `blob` bytes by its last bytes.
pub(super) fn estargz(tail: &[u8], blob: u64) -> Result<Range<u64>> {
    if extra(tail, EXTERNAL).is_some_and(|extra| extra == b"SG\x11\0STARGZEXTERNALTOC") {
        return Err(Error::Footer(
            "refers to a table of contents in another image",
        ));
    }
    let subfield = match extra(tail, ESTARGZ) {
        Some([b'S', b'G', 22, 0, subfield @ ..]) => Some((subfield, ESTARGZ)),
        _ => extra(tail, STARGZ).map(|subfield| (subfield, STARGZ)),
    };
    let Some((subfield, footer)) = subfield else {
        return Err(Error::Footer("is not an eStargz footer"));
    };
    let offset = subfield.strip_suffix(b"STARGZ").and_then(hexadecimal);
    let Some(offset) = offset else {
        return Err(Error::Footer("is not an eStargz footer"));
    };
    let end = blob.saturating_sub(footer as u64);
    if offset >= end {
        return Err(Error::Footer("points outside of the layer"));
    }
    Ok(offset..end)
}

/// Returns the extra field if the bytes end with an empty gzip member of this length.
fn extra(tail: &[u8], length: usize) -> Option<&[u8]> {
    let footer = &tail[tail.len().checked_sub(length)?..];
    let extra = footer.strip_prefix(&GZIP)?.strip_suffix(&NOTHING)?;
    let (told, extra) = extra.get(2..)?.split_first_chunk()?;
    (usize::from(u16::from_le_bytes(*told)) == extra.len()).then_some(extra)
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    // `from_str_radix` also accepts signs.
    let plain = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// Locates the table of contents of a zstd:chunked layer by its last bytes.
pub(super) fn zstd_chunked(tail: &[u8]) -> Result<Position> {
    const UNKNOWN: Error = Error::Footer("is not a zstd:chunked footer");
    // Magic of newer and older writers; writers of both formats use another spelling.
    let known = [(64, b"GNUlInUx"), (40, b"GNUlInUx"), (40, b"GnUlInUx")];
    let found = known.iter().find_map(|(length, magic)| {
        let start = tail.len().checked_sub(*length)?;
        let header = tail.get(start.checked_sub(FRAME_HEADER as usize)?..start)?;
        let size = u32::try_from(*length).ok()?.to_le_bytes();
        let framed = header.strip_prefix(&SKIPPABLE)? == size;
        tail[start..].strip_suffix(*magic).filter(|_| framed)
    });
    let numbers = found.ok_or(UNKNOWN)?;
    let number = |at: usize| {
        let bytes = numbers.get(at * 8..).and_then(<[u8]>::first_chunk);
        bytes.map(|bytes| u64::from_le_bytes(*bytes))
    };
    let position = || Position::of_type(number(3)?, number(0)?, number(1)?, number(2)?);
    position().ok_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(extra: &[u8]) -> Vec<u8> {
        let mut footer = [&GZIP[..], &[0, 255]].concat();
        footer.extend((extra.len() as u16).to_le_bytes());
        [&footer[..], extra, &NOTHING].concat()
    }

    #[test]
    fn both_forms_of_estargz_say_where_the_table_is() {
        let newer = member(b"SG\x16\x0000000000000001ffSTARGZ");
        let older = member(b"00000000000001ffSTARGZ");
        assert_eq!((newer.len(), older.len()), (ESTARGZ, STARGZ));
        assert_eq!(estargz(&newer, 10_000).unwrap(), 0x1ff..9949);
        assert_eq!(estargz(&older, 10_000).unwrap(), 0x1ff..9953);
        let more = [&[7; 100][..], &newer].concat();
        assert_eq!(estargz(&more, 10_000).unwrap(), 0x1ff..9949);
    }

    #[test]
    fn other_ends_of_gzip_layers_are_refused() {
        let outside = member(b"SG\x16\0ffffffffffffffffSTARGZ");
        let at_the_end = member(b"SG\x16\x000000000000000042STARGZ");
        let signed = member(b"SG\x16\0+0000000000001ffSTARGZ");
        let elsewhere = member(b"SG\x11\0STARGZEXTERNALTOC");
        assert_eq!(elsewhere.len(), EXTERNAL);
        let mut other_length = member(b"SG\x16\x0000000000000001ffSTARGZ");
        other_length[10] += 1;
        let mut not_empty = member(b"SG\x16\x0000000000000001ffSTARGZ");
        not_empty[50] = 1;
        let empty = Vec::new();
        let all = [
            &outside,
            &at_the_end,
            &signed,
            &elsewhere,
            &other_length,
            &not_empty,
            &empty,
        ];
        for tail in all {
            let refused = estargz(tail, 0x42 + 51);
            assert!(matches!(refused, Err(Error::Footer(_))), "{tail:?}");
        }
    }

    fn frame(length: u64, kind: u64, magic: [u8; 8]) -> Vec<u8> {
        let mut numbers = Vec::new();
        for number in [1000, 100, 300, kind, 1200, 20, 60] {
            numbers.extend_from_slice(&u64::to_le_bytes(number));
        }
        numbers.truncate(length as usize - 8);
        let size = (length as u32).to_le_bytes();
        [&SKIPPABLE[..], &size, &numbers, &magic].concat()
    }

    #[test]
    fn all_forms_of_zstd_chunked_say_where_the_table_is() {
        for (length, magic) in [(64, b"GNUlInUx"), (40, b"GNUlInUx"), (40, b"GnUlInUx")] {
            let position = Position {
                offset: 1000,
                length: 100,
                plain: 300,
            };
            let footer = frame(length, 1, *magic);
            assert_eq!(zstd_chunked(&footer).unwrap(), position);
            assert!(zstd_chunked(&footer[1..]).is_err());
            assert!(zstd_chunked(&frame(length, 2, *magic)).is_err());
        }
        assert!(zstd_chunked(&[]).is_err());
        assert!(zstd_chunked(&frame(48, 1, *b"GNUlInUx")).is_err());
    }
}
