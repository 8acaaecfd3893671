//! What a layer ends with, so that its table of contents is found.

/// Bytes before what a frame has that decompressors skip (RFC 8878, 3.1.2).
pub(super) const FRAME_HEADER: u64 = 8;

/// An empty gzip member that says where the table begins.
pub(super) fn estargz(offset: u64) -> Vec<u8> {
    member(format!("SG\x16\0{offset:016x}STARGZ").as_bytes())
}

/// As the first writers had it.
pub(super) fn old_stargz(offset: u64) -> Vec<u8> {
    member(format!("{offset:016x}STARGZ").as_bytes())
}

/// An empty gzip member with an extra field (RFC 1952).
fn member(extra: &[u8]) -> Vec<u8> {
    let mut member = vec![0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255];
    member.extend((extra.len() as u16).to_le_bytes());
    member.extend(extra);
    // One stored block of no bytes, their checksum and their number.
    member.extend([1, 0, 0, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0]);
    member
}

/// Where the table is, its length, its length when it is decompressed; and the same of a record of the headers.
pub(super) fn zstd_chunked(table: [u64; 3], record: [u64; 3]) -> Vec<u8> {
    let [offset, length, plain] = table;
    let [begin, bytes, unpacked] = record;
    let numbers = [offset, length, plain, TYPE, begin, bytes, unpacked];
    ended(&numbers, *b"GNUlInUx")
}

/// Where the table is, its length, its length when it is decompressed.
pub(super) fn stargz_zstd([offset, length, plain]: [u64; 3]) -> Vec<u8> {
    ended(&[offset, length, plain, TYPE], *b"GnUlInUx")
}

/// The only type of a table that there is.
const TYPE: u64 = 1;

fn ended(numbers: &[u64], magic: [u8; 8]) -> Vec<u8> {
    let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
    numbers.chain(magic).collect()
}

/// Adds a frame that decompressors skip.
pub(super) fn skipped(to: &mut Vec<u8>, content: &[u8]) {
    let length = u32::try_from(content.len()).expect("a table of contents has less than 4 GiB");
    to.extend([0x50, 0x2a, 0x4d, 0x18]);
    to.extend(length.to_le_bytes());
    to.extend(content);
}
