//! What strangers' bytes meet first, for fuzzing. Not part of the interface.

use std::path::Path;

use crate::bolt::{Bolt, fnv};
use crate::stores::fuzzed_names;
use crate::tar_split::{Pieces, length, replay};

/// A database must be read or refused.
pub fn bolt(data: &[u8]) {
    if let Ok(bolt) = Bolt::of(data, "fuzzed".to_owned()) {
        let _ = bolt.is_unchanged();
        fuzzed_names(&bolt);
    }
}

/// Makes the first pages of a changed database hold their checksums.
pub fn mend(data: &mut [u8]) {
    for page in [0, 4096] {
        if data.len() >= page + 16 + 64 {
            let sum = fnv(&data[page + 16..page + 16 + 56]);
            data[page + 16 + 56..page + 16 + 64].copy_from_slice(&sum.to_le_bytes());
        }
    }
}

/// Records of a layer must be read or refused, and give no more than they promise.
pub fn tar_split(compressed: &[u8], dir: &Path) {
    let Ok(promised) = length(Pieces::of(compressed)) else {
        return;
    };
    let mut out = Vec::new();
    if promised < 1 << 20 && replay(Pieces::of(compressed), dir, &mut out).is_ok() {
        assert_eq!(out.len() as u64, promised);
    }
}
