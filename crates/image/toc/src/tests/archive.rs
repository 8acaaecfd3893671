//! Minimal tar archives for the tests.

/// Returns the header of an entry (POSIX, `ustar`).
pub(super) fn header(name: &str, size: usize) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    let size = format!("{size:011o}");
    header[124..135].copy_from_slice(size.as_bytes());
    header[156] = b'0';
    header[257..263].copy_from_slice(b"ustar\0");
    header
}

/// Returns the padding between the content of a file and the next header.
pub(super) fn padding(size: usize) -> Vec<u8> {
    vec![0; size.next_multiple_of(512) - size]
}

/// Returns the end of an archive.
pub(super) fn end() -> Vec<u8> {
    vec![0; 1024]
}

/// Returns content that is neither random nor constant, and depends on the seed.
pub(super) fn content(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        b'a' + (state >> 20) as u8 % 20
    };
    (0..length).map(|_| next()).collect()
}
