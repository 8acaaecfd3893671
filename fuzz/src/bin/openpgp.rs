//! Signed messages and files of keys. The first byte says which.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orlop_openpgp::{Keyring, Message};

/// A key whose private half is lost, and all that it has signed.
const KEY: &[u8] = include_bytes!("../../keys/openpgp.pub");
const CONTENT: &[u8] = b"what was signed";

/// When all of this is good.
const NOW: u64 = 1_800_000_000;

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    match kind {
        0 => signed(data),
        1 => {
            let mut ring = Keyring::new();
            let _ = ring.add(data);
            let _ = ring.check(NOW);
        }
        _ => {}
    }
});

fn signed(data: &[u8]) {
    let mut ring = Keyring::new();
    ring.add(KEY).unwrap();
    if let Ok(message) = Message::parse(data)
        && let Ok(verified) = message.verify(&ring, NOW)
    {
        assert_eq!(verified.content, CONTENT);
    }
}
