//! Layers for keys of GnuPG: as skopeo encrypts them for RSA, and as GnuPG wraps their keys for all kinds.

use orlop_testkit::Gpg;

use super::*;

impl Scene {
    /// As skopeo encrypts for users of a GnuPG.
    fn encrypt_for(&self, gpg: &Gpg, users: &[&str]) -> Encrypted {
        let recipients: Vec<_> = users.iter().map(|user| format!("pgp:{user}")).collect();
        self.encrypt_with(&[("GNUPGHOME", gpg.home())], &recipients)
    }
}

impl Encrypted {
    /// With the message that its key is wrapped in made anew from what is in that.
    fn with_message(&self, gpg: &Gpg, wrap: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let name = format!("{KEYS}pgp");
        let message = BASE64_STANDARD
            .decode(&self.annotations[&name])
            .expect("base64");
        let private = gpg.decrypt(&message).expect("it is for this GnuPG");
        let mut annotations = self.annotations.clone();
        annotations.insert(name, BASE64_STANDARD.encode(wrap(&private)));
        Self {
            annotations,
            bytes: self.bytes.clone(),
        }
    }

    fn refusal(&self, keys: &[PrivateKey]) -> String {
        let wrapped = Wrapped::of(&self.annotations).expect("annotations");
        match wrapped.open(keys) {
            Ok(None) => format!("no key: {}", wrapped.schemes()),
            Ok(Some(_)) => panic!("it is opened"),
            Err(refused) => refused.to_string(),
        }
    }
}

fn keys_of(file: &[u8]) -> Vec<PrivateKey> {
    PrivateKey::all_of(file, None).expect("keys")
}

#[test]
fn what_skopeo_encrypts_for_a_key_of_gnupg_is_opened_by_it_alone() {
    let scene = scene!();
    let gpg = Gpg::new();
    let [one, two, other] = ["one@a.example", "two@a.example", "other@a.example"].map(|user| {
        let key = gpg.make_key(user, "rsa2048", "sign", "never");
        let subkey = gpg.add_subkey(&key, "rsa3072", "encr", "never");
        (
            gpg.export_secret(&key),
            gpg.export_secret_text(&key),
            subkey,
        )
    });
    let encrypted = scene.encrypt_for(&gpg, &["one@a.example", "two@a.example"]);
    for (file, text, _) in [&one, &two] {
        assert!(plain(&encrypted, &keys_of(file)) == Some(scene.layer.clone()));
        assert!(plain(&encrypted, &keys_of(text)) == Some(scene.layer.clone()));
    }
    assert!(plain(&encrypted, &keys_of(&other.0)).is_none());
    let told = encrypted.refusal(&keys_of(&other.0));
    // By what people find them with.
    for (_, _, subkey) in [&one, &two] {
        assert!(told.contains(&subkey[24..]), "{told}");
    }
    assert_eq!(format!("{:?}", keys_of(&one.0)[0]), "PrivateKey(OpenPGP)");

    // With other keys for others, any is enough.
    let rsa = scene.rsa("rsa");
    let for_rsa = format!("jwe:{}", scene.path("rsa.pub"));
    let for_one = "pgp:one@a.example".to_owned();
    let both = scene.encrypt_with(&[("GNUPGHOME", gpg.home())], &[for_rsa, for_one]);
    for keys in [keys(&rsa), keys_of(&one.1)] {
        assert!(plain(&both, &keys) == Some(scene.layer.clone()));
    }
    assert!(
        both.refusal(&keys_of(&two.0))
            .starts_with("no key: JWE, PGP for ")
    );

    // Skopeo, asked for the same.
    let (from, to) = (
        format!("oci:{}", scene.path("encrypted")),
        format!("oci:{}", scene.path("opened")),
    );
    for (file, expected) in [(&one.0, true), (&other.0, false)] {
        let path = scene.path("key.gpg");
        fs::write(&path, file).expect("write");
        let opened = encryption::can_decrypt(&[], &from, &to, &path);
        assert_eq!(opened, expected);
    }
}

#[test]
fn each_kind_of_key_of_gnupg_opens_a_layer() {
    let scene = scene!();
    let gpg = Gpg::new();
    let rsa = gpg.make_key("rsa@a.example", "rsa2048", "sign,encr", "never");
    let encrypted = scene.encrypt_for(&gpg, &["rsa@a.example"]);
    assert!(plain(&encrypted, &keys_of(&gpg.export_secret(&rsa))) == Some(scene.layer.clone()));
    for kind in ["cv25519", "nistp256", "nistp384", "nistp521"] {
        let user = format!("{kind}@a.example");
        let key = gpg.make_key(&user, "ed25519", "sign", "never");
        gpg.add_subkey(&key, kind, "encr", "never");
        let keys = keys_of(&gpg.export_secret(&key));
        assert!(plain(&encrypted, &keys).is_none());
        for options in [&[][..], &["--compress-algo", "none", "--throw-keyids"]] {
            let layer = encrypted.with_message(&gpg, |it| gpg.encrypt(&[&key], options, it));
            assert!(plain(&layer, &keys) == Some(scene.layer.clone()), "{kind}");
        }
    }
}

#[test]
fn what_is_wrong_with_a_message_is_told_and_nothing_of_its_content() {
    let scene = scene!();
    let gpg = Gpg::new();
    let key = gpg.make_key("a@a.example", "rsa2048", "sign,encr", "never");
    let file = gpg.export_secret(&key);
    let keys = keys_of(&file);
    let encrypted = scene.encrypt_for(&gpg, &["a@a.example"]);
    let with = |wrap: &dyn Fn(&[u8]) -> Vec<u8>| encrypted.with_message(&gpg, wrap).refusal(&keys);
    let pgp = |content: &[u8]| gpg.encrypt(&[&key], &[], content);
    let changed = |at: fn(usize) -> usize| {
        with(&|it| {
            let mut message = pgp(it);
            let at = at(message.len());
            message[at] ^= 1;
            message
        })
    };
    let tampered = "its wrapped key was modified";
    for (error, expected) in [
        // How the key is wrapped, the content, and its check: which of them is not told.
        (changed(|_| 100), tampered),
        (changed(|length| length - 60), tampered),
        (changed(|length| length - 1), tampered),
        (with(&|it| pgp(it)[..80].to_vec()), "ends in the middle"),
        (with(&|_| b"hello".to_vec()), "an OpenPGP message"),
        (
            with(&|it| gpg.encrypt(&[&key], &["--cipher-algo", "3DES"], it)),
            "the cipher TripleDES is not supported",
        ),
        (with(&|_| pgp(&vec![b' '; 8 << 20])), "exceeds the limit"),
        (with(&|_| pgp(b"{}")), "its wrapped key is malformed"),
        (with(&|it| pgp(&it[1..])), "its wrapped key is malformed"),
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
    gpg.revoke(&key);
    let revoked = keys_of(&gpg.export_secret(&key));
    let expected = format!("it is encrypted for the key {key}, which is revoked");
    assert_eq!(encrypted.refusal(&revoked), expected);

    // Where a module of PKCS#11 has the key, that is told.
    let mut annotations = encrypted.annotations.clone();
    let message = annotations
        .remove(&format!("{KEYS}pgp"))
        .expect("a message");
    annotations.insert(format!("{KEYS}pkcs11"), message);
    let bytes = encrypted.bytes.clone();
    let told = Encrypted { annotations, bytes }.refusal(&keys);
    orlop_testkit::assert_contains!(
        told,
        "PKCS#11 (which is not supported",
        "use a key provider"
    );
}
