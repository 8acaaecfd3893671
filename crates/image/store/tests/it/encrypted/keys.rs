//! Keys with a passphrase, and what is for keys of OpenPGP.

use std::process::Command;

use orlop_testkit::process::run;
use orlop_testkit::{Gpg, assert_contains};

use super::*;

#[tokio::test]
async fn what_is_encrypted_for_openpgp_keys_is_refused_with_the_way_out() {
    let scene = scene!();
    let gpg = Gpg::new();
    let key = gpg.make_key("team@a.example", "rsa2048", "sign,encr", "never");
    let environment = [("GNUPGHOME", gpg.home())];
    scene.encrypt_with(&environment, "pgp:1", &["pgp:team@a.example".to_owned()]);
    let told =
        "it is encrypted with PGP (which is not supported; encrypt the image for a key provider";
    assert_no_key(scene.pull_for("team", "pgp:1").await, told);
    assert_no_key(
        scene.pull_for("team", "pgp:1").await,
        "images.key_providers",
    );
    // With another key for others, that one is enough.
    let both = ["pgp:team@a.example".to_owned(), scene.key.recipient()];
    scene.encrypt_with(&environment, "both:1", &both);
    scene.give("", &scene.key);
    let image = scene.pull_for("team", "both:1").await.expect("pull");
    assert_eq!(scene.cargo(&image).await, CARGO);
    // A private key of GnuPG is no key for layers, and is not passed over.
    let secret = gpg.run(&["--armor", "--export-secret-keys", &key], b"");
    scene.put("team", "team.asc", &secret);
    let error = scene.pull_for("team", "pgp:1").await.unwrap_err();
    assert!(matches!(error, Error::Keys { .. }), "{error:?}");
    assert_contains!(
        error.to_string(),
        "team.asc",
        "OpenPGP keys are not supported"
    );
}

#[tokio::test]
async fn a_passphrase_beside_a_key_opens_it_and_what_is_wrong_is_told() {
    let scene = scene!();
    let locked = scene.scratch.path("locked.pem");
    let mut lock = Command::new("openssl");
    lock.args(["pkcs8", "-topk8", "-v2", "aes-256-cbc"]);
    lock.args(["-passout", "pass:open sesame", "-in"]);
    run(lock.arg(&scene.key.private).arg("-out").arg(&locked));
    let pem = fs::read(&locked).expect("read");
    let file = scene.put("", "node.pem", &pem);
    let beside = scene.keys("").join("node.pem.passphrase");
    let refused = async |reason: &str| {
        let error = scene.pull_for("", "secret:1").await.unwrap_err();
        assert!(matches!(error, Error::Keys { .. }), "{error:?}");
        let said = error.to_string();
        assert!(said.contains(reason) && !said.contains("sesame"), "{said}");
        let (_, errors) = scene.place.config.keys.check();
        assert_eq!(errors[0].to_string(), said);
        said
    };
    let said = refused("it is protected by a passphrase; write the passphrase to").await;
    assert!(said.contains(&beside.display().to_string()), "{said}");
    assert!(said.contains(&format!("{}:", file.display())), "{said}");
    scene.put("", "node.pem.passphrase", b"close sesame\n");
    refused("is wrong, or the key is damaged").await;
    scene.put("", "node.pem.passphrase", &[b'x'; 2000]);
    refused("1024 bytes").await;
    for passphrase in [&b"open sesame"[..], b"open sesame\n", b"open sesame\r\n"] {
        scene.put("", "node.pem.passphrase", passphrase);
        let image = scene.pull_for("", "secret:1").await.expect("pull");
        scene.admit(&image, "any").await.expect("it is for all");
    }
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o604)).expect("chmod");
    let said = refused("users other than its owner can read it").await;
    assert!(said.contains("node.pem.passphrase"), "{said}");
    // One that stays when its key goes harms nobody; nor is it a key itself.
    scene.put("", "node.pem.passphrase", b"open sesame");
    fs::remove_file(&file).expect("remove");
    assert_no_key(scene.pull_for("", "secret:1").await, "(keys tried: 0, from");
    // The passphrase of another key is none of this one's.
    scene.put("", "another.pem", &pem);
    refused("it is protected by a passphrase; write the passphrase to").await;

    let module = b"pkcs11:\n  uri: pkcs11:object=x\nmodule:\n";
    scene.put("", "another.pem", module);
    refused("PKCS#11 is not supported").await;
}
