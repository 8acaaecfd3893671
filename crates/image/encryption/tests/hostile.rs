//! Annotations and answers of strangers: read or refused, whatever they are.

#![allow(clippy::expect_used, reason = "what a test makes is there")]

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_encryption::{KEYS, PUBLIC_OPTIONS, PrivateKey, Wrapped, answer};
use orlop_testkit::Fuzz;
use proptest::prelude::*;

fn annotations(scheme: &str, wrapped: &[u8], public: &[u8]) -> BTreeMap<String, String> {
    BTreeMap::from([
        (format!("{KEYS}{scheme}"), BASE64_STANDARD.encode(wrapped)),
        (PUBLIC_OPTIONS.to_owned(), BASE64_STANDARD.encode(public)),
    ])
}

/// A key that is on a curve: those of RSA take their time.
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg/vl0lmns3eg3AC5M
Czhguis98B6UFj0H6QXn+KZK1lGhRANCAASXLs/g1JezrgbuzrMIQpqBshHTo2sY
JLf9dyzH9DmeFsnxqDMJbw7BAnbnE7WDOx2bEYRhGTB44QbpE6VYGAag
-----END PRIVATE KEY-----
";

/// The same with the passphrase `x`, hashed once.
const LOCKED: &str = "MIHrMFYGCSqGSIb3DQEFDTBJMCgGCSqGSIb3DQEFDDAbBAh5eSaSR4mIlAIBATAM\
    BggqhkiG9w0CCQUAMB0GCWCGSAFlAwQBAgQQrmGYpNBFwAICp1KgTDDfugSBkPQQ\
    qsoX9KIkur7nKa7i1/LonQbSkfEzVzGc0NnJ3zQDnpPONV/MJaWoIFoXIdyKOe/b\
    hPYcFiT0Bvjnbwxng0crtv/cXFemWPuY7Z7mu7oRvpbC1xjiVpeZB3/H2bouaLhC\
    yUK8cv7jUTELq+UkTEBet+C3T4GDoammO82cqjXiAYydZE1fUndyTQrQjh69LA==";

#[test]
fn fuzzed_keys_with_a_passphrase_neither_panic_nor_are_others() {
    let der = BASE64_STANDARD.decode(LOCKED).expect("base64");
    let words: [&[u8]; 5] = [
        b"\x30\x84\xff\xff\xff\xff",
        b"\x02\x04\x7f\xff\xff\xff",
        b"\x02\x01\x00",
        b"\x04\x00",
        b"\x06\x08\x2a\x86\x48\x86\xf7\x0d\x02\x0b",
    ];
    let kind = "ENCRYPTED PRIVATE KEY";
    let read = |der: &[u8]| {
        let content = BASE64_STANDARD.encode(der);
        let pem = format!("-----BEGIN {kind}-----\n{content}\n-----END {kind}-----\n");
        PrivateKey::all_of(pem.as_bytes(), Some(b"x"))
    };
    assert_eq!(read(&der).expect("a key").len(), 1);
    Fuzz::new().example(&der).words(words).run(|der| {
        if let Ok(keys) = read(der) {
            assert_eq!(format!("{keys:?}"), "[PrivateKey(P-256)]");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_wrapping_panics(
        scheme in "(jwe|pkcs7|pgp|pkcs11|provider\\.x|other)",
        json in r#"(\{|\}|\[|\]|,|:|"(protected|header|recipients|encrypted_key|iv|tag|ciphertext|alg|enc|epk)"|"[A-Za-z0-9_-]{0,20}"|null){0,40}"#,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        public in any::<Vec<u8>>(),
        is_text in any::<bool>(),
    ) {
        let keys = PrivateKey::all_of(KEY.as_bytes(), None).expect("a key");
        let wrapped = if is_text { json.as_bytes() } else { &bytes };
        if let Ok(wrapped) = Wrapped::of(&annotations(&scheme, wrapped, &public)) {
            let opened = wrapped.open(&keys);
            prop_assert!(!matches!(opened, Ok(Some(_))), "nobody has the key");
        }
        let _ = answer(&bytes);
        let _ = answer(json.as_bytes());
        let _ = PrivateKey::all_of(&bytes, Some(b"x"));
    }

    #[test]
    fn no_der_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        // Enveloped data for nobody, with AES-128-GCM.
        let mut der = vec![
            0x30, 0x3f, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x03, 0xa0, 0x32, 0x30, 0x30,
            0x02, 0x01, 0x00, 0x31, 0x00, 0x30, 0x29, 0x06, 0x03, 0x2a, 0x03, 0x04, 0x30, 0x1e, 0x06, 0x09, 0x60,
            0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x06, 0x30, 0x11, 0x84, 0x0c, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
            11, 12, 0x02, 0x01, 0x10, 0x80, 0x02, 1, 2,
        ];
        for (at, value) in changes {
            let at = at.index(der.len());
            der[at] = value;
        }
        if let Some(cut) = cut {
            der.truncate(cut.index(der.len()));
        }
        if let Ok(wrapped) = Wrapped::of(&annotations("pkcs7", &der, b"{}")) {
            let _ = wrapped.open(&[]);
        }
    }
}
