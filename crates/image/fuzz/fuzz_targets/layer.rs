//! `cargo +nightly fuzz run layer`, from the crate's directory.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let dir = tempfile::tempdir().expect("a directory");
    orlop_image::fuzzing::layer(data, dir.path()).expect("the directory can be used");
});
