//! `cargo +nightly fuzz run websocket`, from the crate's directory.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(orlop_stream::fuzzing::websocket(data));
});
