//! Keys of OpenPGP, and keys with a passphrase.

use std::process::Command;

use orlop_testkit::process::run;
use orlop_testkit::{Gpg, assert_contains};

use super::*;

#[tokio::test]
async fn a_key_of_gnupg_opens_an_image_for_its_namespace_until_it_is_revoked() {
    let scene = scene!();
    let gpg = Gpg::new();
    let key = gpg.make_key("team@a.example", "rsa2048", "sign", "never");
    let subkey = gpg.add_subkey(&key, "rsa2048", "encr", "never");
    let environment = [("GNUPGHOME", gpg.home())];
    scene.encrypt_with(&environment, "pgp:1", &["pgp:team@a.example".to_owned()]);
    // For whom it is, by the end of the key's name.
    let short = format!("it is encrypted with PGP for {}", &subkey[24..]);
    assert_no_key(scene.pull_for("team", "pgp:1").await, &short);
    let file = scene.put("team", "team.asc", &gpg.export_secret_text(&key));
    let image = scene.pull_for("team", "pgp:1").await.expect("pull");
    assert_eq!(scene.cargo(&image).await, CARGO);
    scene.admit(&image, "team").await.expect("theirs");
    assert_no_key(scene.admit(&image, "others").await, &short);
    let (count, errors) = scene.place.config.keys.check();
    assert_eq!((count, errors.len()), (2, 0), "{errors:?}");
    gpg.revoke(&key);
    fs::write(&file, gpg.export_secret(&key)).expect("write");
    let revoked = format!("it is encrypted for the key {subkey}, which is revoked");
    assert_no_key(scene.admit(&image, "team").await, &revoked);
    assert_no_key(scene.pull_for("team", "pgp:1").await, &revoked);
    // A public key in its place, or one with a passphrase, is no key for layers.
    fs::write(&file, gpg.export_text(&key)).expect("write");
    let error = scene.admit(&image, "team").await.unwrap_err();
    assert!(matches!(error, Error::Keys { .. }), "{error:?}");
    assert_contains!(error.to_string(), "it has no private key");
    assert_no_key(scene.admit(&image, "others").await, &short);
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
    assert_no_key(scene.pull_for("", "secret:1").await, "(tried 0 keys from");
    // The passphrase of another key is none of this one's.
    scene.put("", "another.pem", &pem);
    refused("it is protected by a passphrase; write the passphrase to").await;

    let module = b"pkcs11:\n  uri: pkcs11:object=x\nmodule:\n";
    scene.put("", "another.pem", module);
    refused("PKCS#11 is not supported").await;
}
