//! What keys must be.

use super::*;

#[test]
fn a_subkey_signs_for_its_key() {
    let gpg = gpg!();
    let key = gpg.make_key("a <a@a.example>", "rsa2048", "cert", "never");
    let subkey = gpg.add_subkey(&key, "ed25519", "sign", "never");
    let cipher = gpg.add_subkey(&key, "cv25519", "encr", "never");
    let message = gpg.sign(&subkey, &[], CONTENT);
    let name = verify(&message, &[&gpg.export(&key)]).unwrap();
    assert_eq!(
        name,
        format!("{subkey}, a subkey of {key} (a <a@a.example>)")
    );
    assert_ne!(cipher, subkey);
    gpg.revoke_subkey(&key);
    let refusal = verify(&message, &[&gpg.export(&key)]).unwrap_err();
    assert!(matches!(refusal, Refusal::KeyRevoked(_)), "{refusal}");
    assert!(
        refusal
            .to_string()
            .starts_with(&format!("the key {subkey}, a subkey of {key}"))
    );
}

#[test]
fn of_keys_of_several_files_any_will_do_and_others_will_not() {
    let gpg = gpg!();
    let keys = ["a", "b", "c"].map(|user| gpg.make_key(user, "ed25519", "sign", "never"));
    let [a, b, c] = keys.each_ref().map(|key| gpg.export(key));
    let message = gpg.sign(&keys[1], &[], CONTENT);
    verify(&message, &[&a, &[&c[..], &b].concat()]).unwrap();
    let texts = [gpg.export_text(&keys[0]), gpg.export_text(&keys[1])].concat();
    verify(&message, &[&texts]).unwrap();
    let refusal = verify(&message, &[&a, &c]).unwrap_err();
    assert_eq!(refusal, Refusal::UnknownKey(keys[1].clone()));
}

#[test]
fn a_revoked_key_accepts_nothing_whichever_file_says_so() {
    let gpg = gpg!();
    let key = gpg.make_key("a", "ed25519", "sign", "never");
    let message = gpg.sign(&key, &[], CONTENT);
    let before = gpg.export(&key);
    verify(&message, &[&before]).unwrap();
    gpg.revoke(&key);
    let after = gpg.export(&key);
    assert!(!gpg.accepts(&message));
    for files in [&[&after[..]][..], &[&before, &after], &[&after, &before]] {
        let refusal = verify(&message, files).unwrap_err();
        assert_eq!(refusal.to_string(), format!("the key {key} (a) is revoked"));
        assert_eq!(ring(files).check(now()), Err(refusal));
    }
}

#[test]
fn a_key_may_be_revoked_by_another_that_it_names() {
    let gpg = gpg!();
    let [a, b, c] = ["a", "b", "c"].map(|user| gpg.make_key(user, "ed25519", "cert,sign", "never"));
    let message = gpg.sign(&a, &[], CONTENT);
    let edit = ["--command-fd", "0", "--edit-key", &a];
    gpg.run(&edit, format!("addrevoker\n{b}\ny\nsave\n").as_bytes());
    let before = gpg.export(&a);
    verify(&message, &[&before]).unwrap();
    let how = ["--no-batch", "--command-fd", "0", "--desig-revoke", &a];
    let revocation = gpg.run(&how, b"y\n0\n\ny\n");
    gpg.run(&["--import"], &revocation);
    let refusal = verify(&message, &[&gpg.export(&a)]).unwrap_err();
    assert!(matches!(refusal, Refusal::KeyRevoked(_)), "{refusal}");
    // Nobody has asked this one.
    let by_c = gpg.sign(&c, &[], CONTENT);
    // A version, and the type of such revocations.
    let is_revocation = |packet: &Vec<u8>| packet[0] == 0x88 && packet[2..4] == [4, 0x20];
    let revoked = parts(&gpg.export(&a));
    let revocation = revoked.into_iter().find(is_revocation).unwrap();
    let mut own = parts(&gpg.export(&c));
    own.insert(1, revocation);
    verify(&by_c, &[&own.concat()]).unwrap();
}

#[test]
fn what_was_good_for_a_time_only_is_not_good_after_it() {
    let mut gpg = gpg!();
    gpg.set_time(Some("20240101T120000"));
    let key = gpg.make_key("a", "ed25519", "sign", "1y");
    let message = gpg.sign(&key, &[], CONTENT);
    let owner = gpg.make_key("b", "ed25519", "cert", "never");
    let subkey = gpg.add_subkey(&owner, "ed25519", "sign", "1y");
    let by_subkey = gpg.sign(&subkey, &[], CONTENT);
    let lasting = gpg.make_key("c", "ed25519", "sign", "never");
    let short = gpg.sign(&lasting, &["--default-sig-expire", "1w"], CONTENT);
    let at_that_time = |message: &[u8], key: &str| {
        let message = Message::parse(message).unwrap();
        let verified = message.verify(&ring(&[&gpg.export(key)]), 1_704_200_000);
        verified.unwrap().signer.to_string()
    };
    assert_eq!(at_that_time(&message, &key), format!("{key} (a)"));
    at_that_time(&by_subkey, &owner);
    at_that_time(&short, &lasting);
    let told = |message: &[u8], key: &str| {
        verify(message, &[&gpg.export(key)])
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        told(&message, &key),
        format!("the key {key} (a) expired on 2024-12-31")
    );
    let of_subkey = format!("the key {subkey}, a subkey of {owner} (b) expired on 2024-12-31");
    assert_eq!(told(&by_subkey, &owner), of_subkey);
    assert_eq!(told(&short, &lasting), "it expired on 2024-01-08");
    gpg.set_time(None);
    assert!(!gpg.accepts(&message) && !gpg.accepts(&short));
    // Its owner may think otherwise.
    gpg.set_time(Some("20240601T120000"));
    gpg.run(&["--quick-set-expire", &key, "0"], b"");
    verify(&message, &[&gpg.export(&key)]).unwrap();
    gpg.set_time(Some("20240701T120000"));
    gpg.run(&["--quick-set-expire", &key, "1m"], b"");
    let told = verify(&message, &[&gpg.export(&key)])
        .unwrap_err()
        .to_string();
    assert_eq!(told, format!("the key {key} (a) expired on 2024-07-31"));
}

#[test]
fn weak_hashes_and_short_keys_are_refused() {
    let gpg = gpg!();
    let key = gpg.make_key("a", "rsa2048", "sign", "never");
    let weak = gpg.sign(&key, &["--digest-algo", "SHA1"], CONTENT);
    let refusal = verify(&weak, &[&gpg.export(&key)]).unwrap_err();
    assert_eq!(refusal.to_string(), "it uses SHA-1, which is too weak");
    let message = gpg.sign(&key, &["--digest-algo", "SHA224"], CONTENT);
    let refusal = verify(&message, &[&gpg.export(&key)]).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "a signature with SHA-224 is not supported"
    );
    let short = gpg.make_key("b", "rsa1024", "sign", "never");
    let message = gpg.sign(&short, &[], CONTENT);
    let refusal = verify(&message, &[&gpg.export(&short)])
        .unwrap_err()
        .to_string();
    assert!(refusal.contains("an RSA key of 1024 bits"), "{refusal}");
    let refusal = ring(&[&gpg.export(&short)]).check(now()).unwrap_err();
    assert!(matches!(refusal, Refusal::Unusable(..)), "{refusal}");
    // Keys of old have certified themselves so.
    let old = gpg.make_key("c", "rsa2048", "sign", "never");
    gpg.run(
        &["--cert-digest-algo", "SHA1", "--quick-add-uid", &old, "d"],
        b"",
    );
    gpg.run(&["--quick-revoke-uid", &old, "c"], b"");
    verify(&gpg.sign(&old, &[], CONTENT), &[&gpg.export(&old)]).unwrap();
}

#[test]
fn a_key_that_is_not_for_signing_signs_nothing() {
    let gpg = gpg!();
    let key = gpg.make_key("a", "ed25519", "sign,cert", "never");
    let message = gpg.sign(&key, &[], CONTENT);
    gpg.run(
        &["--command-fd", "0", "--expert", "--edit-key", &key],
        b"change-usage\ns\nq\nsave\n",
    );
    let refusal = verify(&message, &[&gpg.export(&key)]).unwrap_err();
    assert!(matches!(refusal, Refusal::MayNotSign(_)), "{refusal}");
}

/// What is changed of a key is not its owner's: neither who that is, nor for how long it is good.
#[test]
fn no_bit_of_a_key_may_be_another() {
    let mut gpg = gpg!();
    gpg.set_time(Some("20240101T000000"));
    let owner = gpg.make_key("somebody <a@a.example>", "ed25519", "cert", "never");
    let subkey = gpg.add_subkey(&owner, "ed25519", "sign", "1y");
    let message = Message::parse(&gpg.sign(&subkey, &[], CONTENT)).unwrap();
    let good = gpg.export(&owner);
    let then = 1_704_200_000;
    let signer = message.verify(&ring(&[&good]), then).unwrap().signer;
    for bit in 0..good.len() * 8 {
        let mut changed = good.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let mut keys = Keyring::new();
        if keys.add(&changed).is_err() {
            continue;
        }
        if let Ok(verified) = message.verify(&keys, then) {
            assert_eq!(verified.signer, signer, "bit {bit}");
        }
        let now = message.verify(&keys, now());
        assert!(now.is_err(), "bit {bit}: {now:?}");
    }
}

#[test]
fn files_without_keys_are_refused() {
    let gpg = gpg!();
    let key = gpg.make_key("a", "ed25519", "sign", "never");
    let message = gpg.sign(&key, &[], CONTENT);
    for (file, complaint) in [
        (gpg.run(&["--export-secret-keys", &key], b""), "private key"),
        (
            gpg.run(&["--armor", "--export-secret-keys", &key], b""),
            "private key",
        ),
        (message, "not OpenPGP"),
        (b"".to_vec(), "no public key"),
        (
            b"-----BEGIN PUBLIC KEY-----\n".to_vec(),
            "no PUBLIC KEY BLOCK",
        ),
        (gpg.export(&key)[..40].to_vec(), "ends in the middle"),
    ] {
        let error = Keyring::new().add(&file).unwrap_err().to_string();
        assert!(error.contains(complaint), "{error}");
    }
}

/// The packets of a key.
fn parts(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let mut rest = bytes.to_vec();
    while !rest.is_empty() {
        // GnuPG writes keys with lengths of one or two bytes, in the old manner.
        let (head, length) = match rest[0] & 3 {
            0 => (2, usize::from(rest[1])),
            1 => (3, usize::from(rest[1]) << 8 | usize::from(rest[2])),
            _ => panic!("another kind of length"),
        };
        let tail = rest.split_off(head + length);
        parts.push(std::mem::replace(&mut rest, tail));
    }
    parts
}

/// A binding of a subkey without what is not signed by the primary key: what the subkey itself says.
fn without_back_signature(packet: &[u8]) -> Vec<u8> {
    let body = &packet[if packet[0] == 0x88 { 2 } else { 3 }..];
    let length = |at: usize| usize::from(body[at]) << 8 | usize::from(body[at + 1]);
    let signed = 6 + length(4);
    let rest = &body[signed + 2 + length(signed)..];
    let body = [&body[..signed], &[0, 0], rest].concat();
    let length = u8::try_from(body.len()).unwrap();
    [&[0x88, length], &body[..]].concat()
}

/// A key without anything that says that it is somebody's, or with what another key says.
#[test]
fn what_others_say_of_a_key_is_nothing() {
    let gpg = gpg!();
    let [a, b] = ["a", "b"].map(|user| gpg.make_key(user, "ed25519", "cert,sign", "never"));
    let subkey = gpg.add_subkey(&b, "ed25519", "sign", "never");
    let message = gpg.sign(&a, &[], CONTENT);
    let by_subkey = gpg.sign(&subkey, &[], CONTENT);
    let [a, b] = [a, b].map(|key| gpg.export(&key));
    let (a, b) = (parts(&a), parts(&b));
    let told = |message: &[u8], key: &[Vec<u8>]| verify(message, &[&key.concat()]).unwrap_err();
    assert!(matches!(told(&message, &a[..1]), Refusal::NotCertified(_)));
    assert!(matches!(told(&message, &a[..2]), Refusal::NotCertified(_)));
    let borrowed = [a[0].clone(), b[1].clone(), b[2].clone()];
    assert!(matches!(
        told(&message, &borrowed),
        Refusal::NotCertified(_)
    ));
    // The subkey of another, with what that says of it.
    let stolen = [&a[..], &b[3..]].concat();
    assert!(matches!(told(&by_subkey, &stolen), Refusal::NotBound(_)));
    // What only the primary key says may be said of anybody's key.
    let one_sided = [&b[..4], &[without_back_signature(&b[4])]].concat();
    assert!(matches!(
        told(&by_subkey, &one_sided),
        Refusal::NotBoundBack(_)
    ));
    let unbound = [&b[..], &b[3..4]].concat();
    verify(&by_subkey, &[&unbound.concat()]).unwrap();
    assert!(matches!(told(&by_subkey, &b[..4]), Refusal::NotBound(_)));
}
