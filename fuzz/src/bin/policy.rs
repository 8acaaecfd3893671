//! Signature policies, and what registries answer of signatures.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orlop_image_store::fuzzing::policy(data));
