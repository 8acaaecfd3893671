//! YAML that people write: each document is read, or refused with a reason.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orlop_yaml::{Document, documents};

fuzz_target!(|data: &[u8]| {
    for document in documents(&String::from_utf8_lossy(data)) {
        if let Document::Bad(at, why) = document {
            assert!(!why.is_empty(), "no reason at {at:?}");
        }
    }
});
