//! Layers of images: what is unpacked stays beneath its directory.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

static SCRATCH: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().unwrap());

fuzz_target!(|data: &[u8]| {
    let dir = SCRATCH.path().join("one");
    std::fs::create_dir(&dir).unwrap();
    orlop_image_store::fuzzing::layer(data, &dir).unwrap();
    orlop_fs::remove_tree(&dir).unwrap();
});
