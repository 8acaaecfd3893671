//! A bounded run of fuzzing (`ORLOP_FUZZ_SECONDS` for more): no file of keys and no message panics or hangs,
//! nothing is believed that was not signed.

use orlop_openpgp::{Keyring, MAX_MESSAGE, Message};
use orlop_testkit::{Fuzz, Gpg, machine, skip_unless};
use proptest::prelude::*;

const CONTENT: &[u8] = b"what was signed";

/// When all of this is good.
const NOW: u64 = 1_800_000_000;

fn gpg() -> Gpg {
    let mut gpg = Gpg::new();
    gpg.set_time(Some("20260101T000000"));
    gpg
}

#[test]
fn no_message_breaks_the_parser_or_is_forged() {
    skip_unless!(machine::has_program("gpg"));
    let gpg = gpg();
    let key = gpg.make_key("a", "ed25519", "cert", "never");
    let subkey = gpg.add_subkey(&key, "rsa2048", "sign", "never");
    let mut ring = Keyring::new();
    ring.add(&gpg.export(&key)).unwrap();
    let mut fuzz = Fuzz::new();
    for kind in ["uncompressed", "zip", "zlib"] {
        fuzz = fuzz.example(gpg.sign(&subkey, &["--compress-algo", kind], CONTENT));
    }
    let words: [&[u8]; 7] = [
        b"\xa3\x00",
        b"\xc8\xe9",
        b"\xcb\xfe",
        b"\xff\xff\xff\xff\xff",
        b"\x04\x00\x01\x0a",
        b"\x05\x9a\x00\x00\x00\x00",
        b"\xc2\x00",
    ];
    fuzz.words(words).run(|bytes| {
        if let Ok(message) = Message::parse(bytes)
            && let Ok(verified) = message.verify(&ring, NOW)
        {
            assert_eq!(verified.content, CONTENT);
        }
    });
}

#[test]
fn no_file_of_keys_breaks_the_parser() {
    skip_unless!(machine::has_program("gpg"));
    let gpg = gpg();
    let key = gpg.make_key("a <a@a.example>", "ed25519", "cert", "never");
    let subkey = gpg.add_subkey(&key, "rsa2048", "sign", "20y");
    gpg.add_subkey(&key, "cv25519", "encr", "never");
    let message = Message::parse(&gpg.sign(&subkey, &[], CONTENT)).unwrap();
    let (bytes, text) = (gpg.export(&key), gpg.export_text(&key));
    let words: [&[u8]; 5] = [
        b"=AAAA",
        b"\n\n",
        b"\x99\x00\x00",
        b"\xd1\x00",
        b"\x98\x06\x04",
    ];
    Fuzz::new()
        .example(bytes)
        .example(text)
        .words(words)
        .run(|bytes| {
            let mut ring = Keyring::new();
            let _ = ring.add(bytes);
            let _ = ring.check(NOW);
            // Whatever is made of the key: without an expiry it may be good, but it has signed nothing else.
            if let Ok(verified) = message.verify(&ring, NOW) {
                assert_eq!(verified.signer.fingerprint.to_string(), subkey);
            }
        });
}

proptest! {
    /// Noise is refused, whatever it is.
    #[test]
    fn noise_is_neither_a_key_nor_a_message(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        first in prop::sample::select(vec![0xa3_u8, 0x99, 0xc6, 0xc4, 0x90, 0xc8, 0x2d, 0x95, 0x9d, 0xc1, 0xd2]),
        now in any::<u64>(),
    ) {
        let bytes = [&[first], &bytes[..]].concat();
        let mut ring = Keyring::new();
        let _ = ring.add(&bytes);
        let _ = ring.check(now);
        if let Ok(message) = Message::parse(&bytes) {
            prop_assert!(message.verify(&ring, now).is_err());
        }
    }

    /// More than anybody signs is not even looked at.
    #[test]
    fn no_longer_message_is_read(more in 1_usize..100) {
        let bytes = vec![0xa3; MAX_MESSAGE + more];
        prop_assert!(Message::parse(&bytes).is_err());
    }
}
