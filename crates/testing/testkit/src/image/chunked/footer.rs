//! Footers of layers, which locate the table of contents.

/// Header length of a skippable frame (RFC 8878, 3.1.2).
pub(super) const FRAME_HEADER: u64 = 8;

/// Returns an empty gzip member with the offset of the table.
pub(super) fn estargz(offset: u64) -> Vec<u8> {
    member(format!("SG\x16\0{offset:016x}STARGZ").as_bytes())
}

/// Returns the footer of early versions.
pub(super) fn old_stargz(offset: u64) -> Vec<u8> {
    member(format!("{offset:016x}STARGZ").as_bytes())
}

/// Returns an empty gzip member with an extra field (RFC 1952).
fn member(extra: &[u8]) -> Vec<u8> {
    let mut member = vec![0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255];
    member.extend((extra.len() as u16).to_le_bytes());
    member.extend(extra);
    // One empty stored block, its checksum and its length.
    member.extend([1, 0, 0, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0]);
    member
}

/// Returns a footer with offset, length and decompressed length of the table, and the same of the tar-split record.
pub(super) fn zstd_chunked(table: [u64; 3], record: [u64; 3]) -> Vec<u8> {
    let [offset, length, plain] = table;
    let [begin, bytes, unpacked] = record;
    let numbers = [offset, length, plain, TYPE, begin, bytes, unpacked];
    ended(&numbers, *b"GNUlInUx")
}

/// Returns a footer with offset, length and decompressed length of the table.
pub(super) fn stargz_zstd([offset, length, plain]: [u64; 3]) -> Vec<u8> {
    ended(&[offset, length, plain, TYPE], *b"GnUlInUx")
}

/// The only defined type of table.
const TYPE: u64 = 1;

fn ended(numbers: &[u64], magic: [u8; 8]) -> Vec<u8> {
    let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
    numbers.chain(magic).collect()
}

/// Appends a skippable frame.
pub(super) fn skipped(to: &mut Vec<u8>, content: &[u8]) {
    let length = u32::try_from(content.len()).expect("a table of contents has less than 4 GiB");
    to.extend([0x50, 0x2a, 0x4d, 0x18]);
    to.extend(length.to_le_bytes());
    to.extend(content);
}
