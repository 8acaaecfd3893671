//! Manifests, indexes and configurations of images.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orlop_image_store::fuzzing::manifest(data));
