//! Bundles, envelopes, certificates and timestamps of sigstore.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orlop_sigstore::fuzzing;

const ROOTS: &[u8] = include_bytes!("../../keys/roots.pem");
const LOG: &[u8] = include_bytes!("../../keys/log.pub");

/// The one time of which these roots have a signed timestamp.
const STAMPED: i64 = 1_700_000_000;

fuzz_target!(|data: &[u8]| {
    fuzzing::bundle(data, ROOTS, LOG);
    fuzzing::certificate(data, ROOTS);
    fuzzing::stamp(data, ROOTS, b"message", STAMPED);
});
