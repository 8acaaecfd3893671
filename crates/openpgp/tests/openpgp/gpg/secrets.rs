//! Messages that GnuPG encrypts, opened by private keys as it exports them.

use orlop_openpgp::{Encrypted, Error, MAX_MESSAGE, SecretKey, SecretKeyError, Unopened};
use orlop_testkit::{Gpg, machine, skip_unless};

use crate::gpg::CONTENT;

/// Kinds of keys that open messages, in GnuPG's words.
const KINDS: [&str; 6] = [
    "rsa2048", "rsa3072", "cv25519", "nistp256", "nistp384", "nistp521",
];

fn keys(file: &[u8]) -> Vec<SecretKey> {
    SecretKey::all_of(file, None).unwrap()
}

pub(crate) fn open(message: &[u8], keys: &[SecretKey]) -> Result<Vec<u8>, Unopened> {
    let message = Encrypted::parse(message)?;
    let opened = message.open(keys.iter(), || true)?;
    Ok(opened.to_vec())
}

/// A primary key that signs only, with a subkey that is encrypted for.
fn key_with(gpg: &Gpg, user: &str, kind: &str) -> String {
    let key = gpg.make_key(user, "ed25519", "cert", "never");
    gpg.add_subkey(&key, kind, "encr", "never");
    key
}

#[test]
fn each_kind_of_key_opens_what_is_encrypted_for_it_and_nothing_else() {
    let gpg = gpg!();
    let made: Vec<String> = KINDS
        .iter()
        .map(|kind| key_with(&gpg, &format!("{kind}@a.example"), kind))
        .collect();
    let files: Vec<_> = made
        .iter()
        .map(|key| keys(&gpg.export_secret(key)))
        .collect();
    for (kind, (key, file)) in KINDS.iter().zip(made.iter().zip(&files)) {
        assert_eq!(file.len(), 1, "{kind}");
        let text = keys(&gpg.export_secret_text(key));
        assert_eq!(text[0].fingerprint(), file[0].fingerprint());
        for options in [
            &["--cipher-algo", "AES", "--compress-algo", "zip"][..],
            &["--cipher-algo", "AES192", "--compress-algo", "zlib"],
            &["--cipher-algo", "AES256", "--compress-algo", "none"],
            &["--armor", "--no-armor", "--throw-keyids"],
        ] {
            let message = gpg.encrypt(&[key], options, CONTENT);
            let opened = open(&message, file);
            assert_eq!(opened.as_deref(), Ok(CONTENT), "{kind} {options:?}");
            assert_eq!(open(&message, &text).as_deref(), Ok(CONTENT));
            for other in files.iter().filter(|it| !std::ptr::eq(*it, file)) {
                assert_eq!(open(&message, other), Err(Unopened::NoKey), "{kind}");
            }
        }
        assert_eq!(
            format!("{file:?}"),
            format!("[SecretKey({})]", file[0].fingerprint())
        );
    }
    // For several, hidden and not, one is enough; all of it in pieces, too.
    let all: Vec<&str> = made.iter().map(String::as_str).collect();
    let large: Vec<u8> = (0..MAX_MESSAGE - 100)
        .map(|at| ((at * at) >> 3) as u8)
        .collect();
    for options in [&[][..], &["--throw-keyids"], &["--compress-algo", "none"]] {
        let message = gpg.encrypt(&all, options, &large);
        for file in &files {
            assert!(open(&message, file).unwrap() == large, "{options:?}");
        }
        let told: Vec<_> = Encrypted::parse(&message).unwrap().recipients().collect();
        let is_hidden = options == ["--throw-keyids"];
        assert_eq!(told.len(), if is_hidden { 0 } else { KINDS.len() });
    }
}

#[test]
fn what_was_changed_is_not_used_wherever_it_was() {
    let gpg = gpg!();
    for kind in ["rsa2048", "cv25519"] {
        let key = key_with(&gpg, &format!("{kind}@a.example"), kind);
        let file = keys(&gpg.export_secret(&key));
        let message = gpg.encrypt(&[&key], &["--compress-algo", "none"], CONTENT);
        assert_eq!(open(&message, &file).as_deref(), Ok(CONTENT));
        let (mut changed, mut other) = (0, 0);
        for at in 0..message.len() {
            let mut message = message.clone();
            message[at] ^= 1;
            match open(&message, &file) {
                // How many bits of its first byte a number has is told twice.
                Ok(opened) if (13..15).contains(&at) => assert_eq!(opened, CONTENT),
                Ok(_) => panic!("{kind}: a change at {at} is not noticed"),
                Err(Unopened::Changed) => changed += 1,
                Err(_) => other += 1,
            }
            // To open it as if for somebody it does not name tells nothing at all.
            if message.get(3..11).is_some() && at > 20 {
                message[4..12].fill(0);
                let error = open(&message, &file).unwrap_err();
                assert!(!matches!(error, Unopened::Changed), "{kind} {at}");
            }
        }
        // The heads of two packets, the name of the key and how it is wrapped.
        assert!(other < 24 && changed > 100, "{kind}: {changed} {other}");
        for length in 0..message.len() {
            open(&message[..length], &file).unwrap_err();
        }
    }
}

#[test]
fn what_is_not_understood_or_too_much_is_refused_by_its_name() {
    let gpg = gpg!();
    let key = gpg.make_key("a@a.example", "ed25519", "sign", "never");
    gpg.add_subkey(&key, "rsa2048", "encr", "never");
    let file = keys(&gpg.export_secret(&key));
    let encrypted = |options: &[&str], content: &[u8]| {
        open(&gpg.encrypt(&[&key], options, content), &file)
            .unwrap_err()
            .to_string()
    };
    for cipher in ["3DES", "CAST5", "BLOWFISH", "TWOFISH", "CAMELLIA256"] {
        let error = encrypted(&["--cipher-algo", cipher], CONTENT);
        let name = match cipher {
            "3DES" => "TripleDES",
            "CAMELLIA256" => "Camellia-256",
            other => other,
        };
        let (error, name) = (error.to_lowercase(), name.to_lowercase());
        assert_eq!(error, format!("the cipher {name} is not supported"));
    }
    let error = encrypted(&["--compress-algo", "bzip2"], CONTENT);
    assert!(error.contains("compression with bzip2"), "{error}");
    // A few kB that become many.
    let error = encrypted(&["--compress-algo", "zlib"], &vec![0; 4 << 20]);
    assert!(error.contains("unpacked bytes"), "{error}");
    let large = vec![7; MAX_MESSAGE + 1];
    for kind in ["zlib", "none"] {
        let error = encrypted(&["--compress-algo", kind], &large);
        assert!(error.contains("exceeds the limit of 65536"), "{error}");
    }
    let error = encrypted(&["--sign"], CONTENT);
    assert!(error.contains("is not data"), "{error}");

    let message = gpg.encrypt(&[&key], &["--compress-algo", "none"], CONTENT);
    let for_all = Gpg::with_passphrase("x").run(&["--symmetric"], CONTENT);
    let mut without_check = message.clone();
    // Behind what it is wrapped in, an old packet of no length.
    assert_eq!(message[0], 0x85, "its key, with two bytes of length");
    let at = 3 + usize::from(u16::from_be_bytes([message[1], message[2]]));
    assert_eq!(message[at], 0xd2);
    without_check[at] = 0xc9;
    let with_aead = [&message[..at], &[0xd4, 1, 1]].concat();
    let newer = [&message[..at], &[0xd2, 2, 2, 9]].concat();
    let twice = [&message[..], &message].concat();
    let nobody = &message[at..];
    let many = [&message[..at].repeat(65), nobody].concat();
    for (message, reason) in [
        (&for_all[..], "with a passphrase instead of a key"),
        (&without_check, "without an integrity check"),
        (&with_aead, "encryption with AEAD"),
        (&newer, "encryption with AEAD"),
        (&twice, "data follows the message"),
        (nobody, "with a passphrase instead of a key"),
        (&many, "recipients"),
        (&message[..at], "not an encrypted message"),
        (b"", "not an encrypted message"),
        (b"hello", "data that is not a packet"),
        (&vec![0xd2; 300_000], "the number of bytes"),
        (&gpg.export(&key), "not an encrypted message"),
    ] {
        let error = Encrypted::parse(message).map(drop).unwrap_err().to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    }
    // As often as may be, and no more.
    let opened = Encrypted::parse(&message)
        .unwrap()
        .open(file.iter(), || false);
    assert_eq!(opened, Err(Unopened::TooMany));
}

#[test]
fn a_revoked_key_opens_nothing_and_is_told_of() {
    let gpg = gpg!();
    for (user, whole) in [("whole@a.example", true), ("part@a.example", false)] {
        let key = gpg.make_key(user, "ed25519", "cert", "never");
        let first = gpg.add_subkey(&key, "cv25519", "encr", "never");
        let message = gpg.encrypt(&[&key], &[], CONTENT);
        let before = gpg.export_secret(&key);
        if whole {
            gpg.revoke(&key);
        } else {
            gpg.revoke_subkey(&key);
            let second = gpg.add_subkey(&key, "cv25519", "encr", "never");
            let file = keys(&gpg.export_secret(&key));
            let message = gpg.encrypt(&[&key], &[], CONTENT);
            assert_eq!(open(&message, &file).as_deref(), Ok(CONTENT), "{second}");
        }
        let file = keys(&gpg.export_secret(&key));
        let error = open(&message, &file).unwrap_err();
        assert_eq!(error.to_string(), format!("the key {first} is revoked"));
        // Who has it from before the revocation may, and so may GnuPG.
        let old = keys(&before);
        assert_eq!(open(&message, &old).as_deref(), Ok(CONTENT));
        assert_eq!(gpg.decrypt(&message).as_deref(), Some(CONTENT));
    }
    // One whose time is over still opens what is from then.
    let mut gpg = gpg;
    gpg.set_time(Some("20200101T000000"));
    let key = gpg.make_key("old@a.example", "ed25519", "cert", "1y");
    gpg.add_subkey(&key, "cv25519", "encr", "1y");
    let message = gpg.encrypt(&[&key], &[], CONTENT);
    let file = keys(&gpg.export_secret(&key));
    assert_eq!(open(&message, &file).as_deref(), Ok(CONTENT));
}

#[test]
fn a_passphrase_opens_keys_and_no_other_does() {
    skip_unless!(machine::has_program("gpg"));
    let gpg = Gpg::with_passphrase("a secret of ours");
    for kind in ["rsa2048", "nistp256"] {
        let key = key_with(&gpg, &format!("{kind}@a.example"), kind);
        let message = gpg.encrypt(&[&key], &[], CONTENT);
        let file = gpg.export_secret(&key);
        let read = |passphrase| {
            SecretKey::all_of(&file, passphrase).map(|keys| {
                assert_eq!(open(&message, &keys).as_deref(), Ok(CONTENT));
            })
        };
        assert_eq!(read(Some(b"a secret of ours")), Ok(()));
        assert_eq!(read(None), Err(SecretKeyError::NoPassphrase));
        for wrong in [&b""[..], b"a secret of our", b"a secret of ours\n"] {
            assert_eq!(read(Some(wrong)), Err(SecretKeyError::WrongPassphrase));
        }
    }
}

#[test]
fn files_without_a_key_that_opens_messages_say_why() {
    let gpg = gpg!();
    let signs = gpg.make_key("signs@a.example", "ed25519", "sign", "never");
    let dsa = gpg.make_key("dsa@a.example", "dsa2048", "sign", "never");
    gpg.add_subkey(&dsa, "elg2048", "encr", "never");
    let brainpool = key_with(&gpg, "brain@a.example", "brainpoolP256r1");
    let both = key_with(&gpg, "both@a.example", "rsa2048");
    let weak = key_with(&gpg, "weak@a.example", "rsa1024");
    let only = |key: &str, what: &str| gpg.run(&[what, key], b"");
    for (file, reason) in [
        (gpg.export_secret(&signs), "EdDSA can only sign"),
        (
            gpg.export_secret(&dsa),
            "its key type (ElGamal) is not supported",
        ),
        (gpg.export_secret(&brainpool), "its curve is not supported"),
        (gpg.export_secret(&weak), "an RSA key of 1024 bits"),
        (gpg.export(&both), "it has no private key"),
        (gpg.export_text(&both), "it has no private key"),
        (Vec::new(), "it has no private key"),
    ] {
        let error = SecretKey::all_of(&file, None).map(drop).unwrap_err();
        assert!(error.to_string().contains(reason), "{reason}: {error}");
    }
    // Without the primary key's private part the subkey's is enough.
    let file = only(&both, "--export-secret-subkeys");
    assert_eq!(keys(&file).len(), 1);
    let message = gpg.encrypt(&[&both], &[], CONTENT);
    assert_eq!(open(&message, &keys(&file)).as_deref(), Ok(CONTENT));
    // And one file may have several.
    let file = gpg.run(&["--export-secret-keys", &both, &dsa], b"");
    assert_eq!(open(&message, &keys(&file)).as_deref(), Ok(CONTENT));
    for length in 0..file.len() {
        if let Err(SecretKeyError::Unreadable(Error::NotOpenPgp(what))) =
            SecretKey::all_of(&file[..length], None)
        {
            panic!("{length}: {what}");
        }
    }
}
