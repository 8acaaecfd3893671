//! What messages must be.

use super::*;

#[test]
fn what_every_kind_of_key_signs_is_believed() {
    let gpg = gpg!();
    for kind in ["rsa2048", "rsa3072", "ed25519", "nistp256", "nistp384"] {
        let user = format!("{kind} <{kind}@a.example>");
        let key = gpg.make_key(&user, kind, "sign,cert", "never");
        for hash in ["SHA256", "SHA384", "SHA512"] {
            let may_not = [
                ("nistp256", "SHA512"),
                ("nistp384", "SHA256"),
                ("nistp384", "SHA512"),
            ];
            if may_not.contains(&(kind, hash)) {
                continue;
            }
            let message = gpg.sign(&key, &["--digest-algo", hash], CONTENT);
            let name = verify(&message, &[&gpg.export(&key)]).unwrap();
            assert_eq!(name, format!("{key} ({user})"));
            assert_eq!(verify(&message, &[&gpg.export_text(&key)]).unwrap(), name);
            // The last byte is one of what only the owner of the key can make.
            let options = ["--digest-algo", hash, "--compress-algo", "uncompressed"];
            let mut forged = gpg.sign(&key, &options, CONTENT);
            *forged.last_mut().unwrap() ^= 1;
            let refusal = verify(&forged, &[&gpg.export(&key)]).unwrap_err();
            assert!(
                matches!(refusal, Refusal::Wrong(_)),
                "{kind} {hash}: {refusal}"
            );
        }
    }
}

#[test]
fn a_message_may_be_compressed_or_not_and_come_in_pieces() {
    let gpg = gpg!();
    let key = gpg.make_key("a", "ed25519", "sign", "never");
    let public = gpg.export(&key);
    for kind in ["uncompressed", "zip", "zlib"] {
        let message = gpg.sign(&key, &["--compress-algo", kind], CONTENT);
        verify(&message, &[&public]).unwrap();
    }
    let message = gpg.sign(&key, &["--compress-algo", "bzip2"], CONTENT);
    let error = Message::parse(&message).unwrap_err().to_string();
    assert_eq!(error, "compression with bzip2 in it is not supported");
    // Of a pipe GnuPG does not know the end.
    let long: Vec<u8> = b"0123456789".repeat(2000);
    let message = gpg.sign(&key, &["--compress-algo", "uncompressed"], &long);
    let message = Message::parse(&message).unwrap();
    assert_eq!(
        message.verify(&ring(&[&public]), now()).unwrap().content,
        long
    );
}

#[test]
fn a_bomb_is_not_unpacked() {
    let gpg = gpg!();
    let key = gpg.make_key("a", "ed25519", "sign", "never");
    let message = gpg.sign(&key, &["--compress-algo", "zlib"], &vec![0; 50_000_000]);
    assert!(message.len() < 64 << 10, "{}", message.len());
    let error = Message::parse(&message).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
}

#[test]
fn what_is_made_in_the_future_or_before_its_key_is_refused() {
    let mut gpg = gpg!();
    let key = gpg.make_key("a", "ed25519", "sign", "never");
    let public = gpg.export(&key);
    gpg.set_time(Some("20990101T000000"));
    let future = gpg.sign(&key, &[], CONTENT);
    let refusal = verify(&future, &[&public]).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "its creation time is in the future, on 2099-01-01"
    );
    gpg.set_time(Some("20200101T000000"));
    let past = gpg.sign(&key, &["--ignore-time-conflict"], CONTENT);
    let refusal = verify(&past, &[&public]).unwrap_err();
    assert!(matches!(refusal, Refusal::OlderThanKey(_)), "{refusal}");
}

#[test]
fn a_message_is_one_signature_of_one_thing() {
    let gpg = gpg!();
    let [a, b] = ["a", "b"].map(|user| gpg.make_key(user, "ed25519", "sign", "never"));
    let refused = |message: &[u8]| Message::parse(message).unwrap_err().to_string();
    let other = format!("{b}!");
    let plain = ["--compress-algo", "uncompressed"];
    for options in [
        &["--local-user", &other][..],
        &["--local-user", &other, plain[0], plain[1]],
    ] {
        let two = gpg.sign(&a, options, CONTENT);
        assert!(
            refused(&two).contains("it has 2 signatures"),
            "{}",
            refused(&two)
        );
    }
    let message = gpg.sign(&a, &plain, CONTENT);
    Message::parse(&message).unwrap();
    for more in [&message[..], &gpg.export(&a), &[0xca, 3, b'P', b'G', b'P']] {
        let error = Message::parse(&[&message[..], more].concat()).unwrap_err();
        assert!(matches!(error, Error::Shape(_)), "{error}");
    }
    // It goes to the end of the bytes.
    let compressed = gpg.sign(&a, &["--compress-algo", "zip"], CONTENT);
    let longer = [&compressed[..], b"x"].concat();
    assert!(
        refused(&longer).contains("data follows the compressed data"),
        "{}",
        refused(&longer)
    );
    let user = format!("{a}!");
    for (how, complaint) in [
        (&["--detach-sign"][..], "it has other packets: a signature"),
        (&["--clear-sign"], "data that is not a packet"),
        (&["--armor", "--sign"], "data that is not a packet"),
        (&["--store"], "it has no signature, but data"),
    ] {
        let message = gpg.run(&[&["--local-user", &user], how].concat(), CONTENT);
        assert!(
            refused(&message).contains(complaint),
            "{how:?}: {}",
            refused(&message)
        );
    }
    let text = gpg.sign(&a, &["--textmode"], b"a\nb\n");
    let text = Message::parse(&text).unwrap();
    let refusal = text.verify(&ring(&[&gpg.export(&a)]), now()).unwrap_err();
    assert_eq!(refusal, Refusal::NotOfData(1));
}

#[test]
fn no_byte_of_a_message_may_be_another() {
    let gpg = gpg!();
    let key = gpg.make_key("a", "ed25519", "sign", "never");
    let ring = ring(&[&gpg.export(&key)]);
    let message = gpg.sign(&key, &["--compress-algo", "uncompressed"], CONTENT);
    for at in 0..message.len() {
        assert!(
            Message::parse(&message[..at]).is_err(),
            "{at} bytes are a message"
        );
        let mut changed = message.clone();
        changed[at] ^= 1;
        let Ok(parsed) = Message::parse(&changed) else {
            continue;
        };
        // What is signed holds, or nothing does: a date beside it is no part of it.
        if let Ok(verified) = parsed.verify(&ring, now()) {
            assert_eq!(verified.content, CONTENT, "at {at}");
        }
    }
    // Nor may the signature have one more: it is the last packet, with a length of one byte.
    let mut longer = message.clone();
    let is_head =
        |at: &usize| message[*at] == 0x88 && usize::from(message[at + 1]) == message.len() - at - 2;
    let head = (0..message.len() - 1).find(is_head).unwrap();
    longer[head + 1] += 1;
    longer.push(0);
    let refusal = Message::parse(&longer)
        .unwrap()
        .verify(&ring, now())
        .unwrap_err();
    assert!(matches!(refusal, Refusal::Wrong(_)), "{refusal}");
    let mut changed = message;
    let at = changed.windows(8).position(|it| it == b"critical").unwrap();
    changed[at] = b'C';
    let refusal = Message::parse(&changed)
        .unwrap()
        .verify(&ring, now())
        .unwrap_err();
    assert!(matches!(refusal, Refusal::Wrong(_)), "{refusal}");
}

#[test]
fn a_critical_subpacket_that_is_not_known_is_refused() {
    let gpg = gpg!();
    let key = gpg.make_key("a", "ed25519", "sign", "never");
    let public = gpg.export(&key);
    let noted = gpg.sign(&key, &["--sig-notation", "note@a.example=x"], CONTENT);
    verify(&noted, &[&public]).unwrap();
    let noted = gpg.sign(&key, &["--sig-notation", "!note@a.example=x"], CONTENT);
    assert_eq!(
        verify(&noted, &[&public]).unwrap_err(),
        Refusal::Critical(20)
    );
}
