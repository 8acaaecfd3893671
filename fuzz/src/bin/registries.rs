//! What says where images are: `registries.conf`, `hosts.toml`, demands for credentials, stores of signatures, names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orlop_image_store::fuzzing;

fuzz_target!(|data: &[u8]| {
    fuzzing::registries(data);
    fuzzing::hosts(data);
    fuzzing::signature_stores(data);
    fuzzing::reference(data);
    fuzzing::key_providers(data);
});
