//! Entry points for fuzzing the parsers of untrusted data. Not part of the public interface.

use std::path::Path;

use crate::bolt::{Bolt, fnv};
use crate::stores::fuzzed_names;
use crate::tar_split::{Pieces, length, replay};

/// Reads or refuses a database. Returns how many images it names.
pub fn bolt(data: &[u8]) -> usize {
    let Ok(bolt) = Bolt::of(data, "fuzzed".to_owned()) else {
        return 0;
    };
    let _ = bolt.is_unchanged();
    fuzzed_names(&bolt)
}

/// Repairs the checksums of the first pages of a modified database.
pub fn mend(data: &mut [u8]) {
    for page in [0, 4096] {
        if data.len() >= page + 16 + 64 {
            let sum = fnv(&data[page + 16..page + 16 + 56]);
            data[page + 16 + 56..page + 16 + 64].copy_from_slice(&sum.to_le_bytes());
        }
    }
}

/// Reads or refuses the records of a layer, which must yield the promised length. Returns that length.
pub fn tar_split(compressed: &[u8], dir: &Path) -> Option<u64> {
    let promised = length(Pieces::of(compressed)).ok()?;
    let mut out = Vec::new();
    if promised > 1 << 20 || replay(Pieces::of(compressed), dir, &mut out).is_err() {
        return None;
    }
    assert_eq!(out.len() as u64, promised);
    Some(promised)
}
