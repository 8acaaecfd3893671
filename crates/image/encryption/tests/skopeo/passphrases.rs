//! Keys with a passphrase, as openssl gives them one.

use std::time::{Duration, Instant};

use orlop_encryption::KeyError;

use super::*;

const PASSPHRASE: &[u8] = b"open sesame";

/// A key with the passphrase, as openssl writes it with these options.
fn locked(scene: &Scene, from: &Path, options: &[&str]) -> Vec<u8> {
    let (from, to) = (from.display().to_string(), scene.path("locked.pem"));
    let rest = ["-in", &from, "-out", &to, "-passout", "pass:open sesame"];
    run("openssl", &[options, &rest[..]].concat());
    fs::read(to).expect("read")
}

fn read(file: &[u8], passphrase: Option<&[u8]>) -> Result<Vec<PrivateKey>, KeyError> {
    PrivateKey::all_of(file, passphrase)
}

#[test]
fn each_way_in_which_openssl_protects_keys_is_understood_or_refused_by_its_name() {
    let scene = scene!();
    let rsa = scene.rsa("rsa");
    let curve = scene.key("p384", Curve("P-384"));
    let to = [("rsa", &rsa), ("p384", &curve)]
        .map(|(name, path)| (format!("jwe:{}", scene.path(&format!("{name}.pub"))), path));
    for (recipient, path) in &to {
        let encrypted = scene.encrypt(std::slice::from_ref(recipient));
        for options in [
            &["pkey", "-aes256"][..],
            &["pkcs8", "-topk8"],
            &[
                "pkcs8",
                "-topk8",
                "-v2",
                "aes-128-cbc",
                "-v2prf",
                "hmacWithSHA1",
            ],
            &[
                "pkcs8",
                "-topk8",
                "-v2",
                "aes-192-cbc",
                "-v2prf",
                "hmacWithSHA384",
            ],
            &[
                "pkcs8",
                "-topk8",
                "-v2",
                "aes-256-cbc",
                "-v2prf",
                "hmacWithSHA512",
            ],
            &["pkcs8", "-topk8", "-v2", "aes-256-cbc", "-iter", "300000"],
        ] {
            let file = locked(&scene, path, options);
            let keys = read(&file, Some(PASSPHRASE)).expect("a key");
            let opened = plain(&encrypted, &keys);
            assert!(opened == Some(scene.layer.clone()), "{options:?}");
            assert_eq!(read(&file, None).err(), Some(KeyError::NoPassphrase));
            for wrong in [&b""[..], b"open sesam", b"open sesame\n", b"close"] {
                let error = read(&file, Some(wrong)).err();
                assert_eq!(error, Some(KeyError::WrongPassphrase), "{options:?}");
            }
        }
    }
    for (options, reason) in [
        (&["pkcs8", "-topk8", "-scrypt"][..], "with scrypt"),
        (
            &["pkcs8", "-topk8", "-v2", "des3"],
            "a cipher other than AES-CBC",
        ),
        (&["pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES"], "or PKCS#12"),
        (
            &[
                "pkcs8",
                "-topk8",
                "-v2",
                "aes-256-cbc",
                "-v2prf",
                "hmacWithSHA224",
            ],
            "a hash other than",
        ),
        (&["rsa", "-aes256", "-traditional"], "before PKCS#8"),
    ] {
        let file = locked(&scene, &rsa, options);
        let error = read(&file, Some(PASSPHRASE)).unwrap_err().to_string();
        assert!(error.contains(reason), "{reason}: {error}");
        // And the way out.
        assert!(error.contains("openssl pkcs8 -topk8"), "{error}");
    }
    // With one that has none, both are read.
    let both = [
        fs::read(&curve).expect("read"),
        locked(&scene, &rsa, &["pkey", "-aes128"]),
    ];
    let keys = read(&both.concat(), Some(PASSPHRASE)).expect("keys");
    assert_eq!(format!("{keys:?}"), "[PrivateKey(P-384), PrivateKey(RSA)]");
}

#[test]
fn a_damaged_key_with_a_passphrase_is_refused_within_reasonable_time() {
    let scene = scene!();
    let curve = scene.key("p256", Curve("P-256"));
    let file = locked(&scene, &curve, &["pkcs8", "-topk8"]);
    let text = String::from_utf8(file).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    let der = BASE64_STANDARD
        .decode(lines[1..lines.len() - 1].concat())
        .expect("base64");
    let pem = |der: &[u8]| {
        let content = BASE64_STANDARD.encode(der);
        let kind = "ENCRYPTED PRIVATE KEY";
        format!("-----BEGIN {kind}-----\n{content}\n-----END {kind}-----\n").into_bytes()
    };
    assert_eq!(read(&pem(&der), Some(PASSPHRASE)).expect("a key").len(), 1);
    let start = Instant::now();
    for at in 0..der.len() {
        for bit in [0x01, 0x80] {
            let mut der = der.clone();
            der[at] ^= bit;
            // What is not read may be changed; of the key there is nothing else.
            if let Ok(keys) = read(&pem(&der), Some(PASSPHRASE)) {
                assert_eq!(format!("{keys:?}"), "[PrivateKey(P-256)]", "{at}");
            }
        }
    }
    assert!(start.elapsed() < Duration::from_secs(30));
    for length in 0..der.len() {
        read(&pem(&der[..length]), Some(PASSPHRASE)).unwrap_err();
    }
    // 2,048 rounds made 2,000,000,000.
    let rounds = der.windows(4).position(|it| it == [0x02, 0x02, 0x08, 0x00]);
    let rounds = rounds.expect("the number of rounds");
    let longer = [
        &der[..rounds],
        &[0x02, 0x04, 0x77, 0x35, 0x94, 0x00],
        &der[rounds + 4..],
    ]
    .concat();
    let mut longer = longer;
    // Lengths of what it is in: of all, the algorithm, its parameters, and those of the derivation.
    for at in 0..rounds {
        let is_length = at > 0 && longer[at - 1] == 0x30 && longer[at] < 0x80;
        if is_length || at == 2 && longer[1] == 0x81 {
            let end = at + 1 + usize::from(longer[at]);
            longer[at] += if end + 2 > rounds { 2 } else { 0 };
        }
    }
    let error = read(&pem(&longer), Some(PASSPHRASE)).unwrap_err();
    assert!(error.to_string().contains("too many iterations"), "{error}");
    let many = pem(&der).repeat(17);
    assert_eq!(read(&many, Some(PASSPHRASE)).err(), Some(KeyError::TooMany));
    let cut = text.replace("-----END", "---END");
    assert_eq!(
        read(cut.as_bytes(), Some(PASSPHRASE)).err(),
        Some(KeyError::Pem)
    );
}

#[test]
fn keys_of_gnupg_and_of_modules_are_refused_with_the_way_out() {
    let text = b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOY\n=AAAA\n";
    for file in [&text[..], b"\x95\x03\x98\x04", b"\xc5\x09\x04"] {
        let error = read(file, None).unwrap_err();
        assert_eq!(error, KeyError::OpenPgp);
        assert!(error.to_string().contains("use a key provider"), "{error}");
    }
    let module =
        b"pkcs11:\n  uri: pkcs11:object=x?module-path=/usr/lib/x.so\nmodule:\n  env:\n    A: b\n";
    let error = read(module, None).unwrap_err();
    assert_eq!(error, KeyError::Pkcs11);
    assert!(error.to_string().contains("use a key provider"), "{error}");
}
