//! `cargo +nightly fuzz run policy`, from the crate's directory.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    orlop_image::fuzzing::policy(data);
});
