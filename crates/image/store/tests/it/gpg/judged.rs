//! GPG signatures as skopeo makes them and judges them.

use super::*;

#[tokio::test]
async fn what_skopeo_signs_while_it_copies_is_pulled() {
    skip_unless!(machine::has_program("gpg").and_then(|()| machine::has_program("skopeo")));
    let scene = Scene::new().await;
    assert_refused(
        scene.pull().await,
        "it must be signed with GPG, but has no signature",
    );
    assert_eq!(scene.place.layer_dirs(), 0);
    scene.accept();
    let name = format!("docker://{}", scene.name());
    let copied = scene.skopeo(&[
        "copy",
        "--src-tls-verify=false",
        "--dest-tls-verify=false",
        "--sign-by",
        &scene.key,
        &name,
        &name,
    ]);
    assert!(copied.status.success(), "{copied:?}");
    assert!(
        scene
            .place_of(scene.built.digest())
            .join("signature-1")
            .exists()
    );
    scene.set(&json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": scene.key_file() }));
    let image = scene.pull().await.unwrap();
    scene.admit(&image).await.unwrap();
    let verdict = scene
        .place
        .images
        .judge(&image.id, None, "")
        .await
        .unwrap()
        .unwrap();
    let reason = &verdict.requirements[0].reason;
    let expected = format!("signed by {} (team <team@a.example>) as ", scene.key);
    assert!(reason.starts_with(&expected), "{reason}");
}

#[tokio::test]
async fn what_skopeo_signs_alone_is_pulled() {
    skip_unless!(machine::has_program("gpg").and_then(|()| machine::has_program("skopeo")));
    let scene = Scene::new().await;
    let [manifest, signature] = ["manifest", "signature"].map(|it| scene.scratch.path(it));
    std::fs::write(&manifest, &scene.built.top.bytes).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (manifest, output) = (text(&manifest), text(&signature));
    let name = scene.name();
    let signed = scene.skopeo(&[
        "standalone-sign",
        "-o",
        &output,
        &manifest,
        &name,
        &scene.key,
    ]);
    assert!(signed.status.success(), "{signed:?}");
    scene.put(scene.built.digest(), &[std::fs::read(signature).unwrap()]);
    scene.pull().await.unwrap();
}

/// Each row: what is in the store, and why that will not do.
#[tokio::test]
async fn what_is_refused_here_skopeo_refuses_too() {
    skip_unless!(machine::has_program("gpg").and_then(|()| machine::has_program("skopeo")));
    let mut scene = Scene::new().await;
    let (digest, payload) = (scene.built.digest().to_owned(), scene.own_payload());
    let other = ImageBuilder::new()
        .marked("other")
        .build()
        .digest()
        .to_owned();
    let stranger = scene.gpg.make_key("stranger", "ed25519", "sign", "never");
    let sign = |key: &str, options: &[&str], payload: &[u8]| scene.gpg.sign(key, options, payload);
    let good = sign(&scene.key, &["--compress-algo", "uncompressed"], &payload);
    let mut tampered = good.clone();
    let at = tampered.windows(4).position(|it| it == b"team").unwrap();
    tampered[at] = b'T';
    let second = format!("{stranger}!");
    let team = &scene.key;
    let weak = ["--allow-weak-digest-algos", "--digest-algo", "MD5"];
    let rows = [
        ("is not a valid signature of the key", tampered),
        (
            "it is for another image",
            sign(team, &[], &image_payload(&other, &scene.name())),
        ),
        (
            "not for",
            sign(
                team,
                &[],
                &image_payload(&digest, &scene.registry.reference("x:1")),
            ),
        ),
        (
            "signed with the unknown key",
            sign(&stranger, &[], &payload),
        ),
        ("MD5, which is too weak", sign(team, &weak, &payload)),
        (
            "it has 2 signatures",
            sign(team, &["--local-user", &second], &payload),
        ),
        ("it has 2 signatures", [&good[..], &good].concat()),
        ("ends in the middle", good[..good.len() - 9].to_vec()),
        ("it has no signature", scene.gpg.run(&["--store"], &payload)),
    ];
    scene.put(&digest, std::slice::from_ref(&good));
    scene.pull().await.unwrap();
    scene.skopeo_accepts().unwrap();
    for (because, message) in rows {
        scene.forget().await;
        scene.put(&digest, &[message]);
        assert_refused(scene.pull().await, because);
        scene.skopeo_accepts().expect_err(because);
        // Another one beside it will do, for both.
        let message = std::fs::read(scene.place_of(&digest).join("signature-1")).unwrap();
        scene.put(&digest, &[message, good.clone()]);
        scene.pull().await.unwrap();
        scene.skopeo_accepts().unwrap();
    }
    // Keys and signatures whose time is over, and a key that is worth nothing any more.
    scene.gpg.set_time(Some("20240101T000000"));
    let short = scene.gpg.make_key("short", "ed25519", "sign", "1y");
    let long = scene.gpg.make_key("long", "ed25519", "sign", "never");
    let revoked = scene.gpg.make_key("revoked", "ed25519", "sign", "never");
    let rows = [
        (&short, "expired on 2024-12-31", &[][..]),
        (
            &long,
            "it expired on 2024-01-08",
            &["--default-sig-expire", "7d"],
        ),
        (&revoked, "is revoked", &[]),
    ];
    for (key, because, options) in rows {
        scene.forget().await;
        scene.put(&digest, &[scene.gpg.sign(key, options, &payload)]);
        if *key == revoked {
            scene.gpg.revoke(key);
        }
        std::fs::write(scene.key_file(), scene.gpg.export(key)).unwrap();
        assert_refused(scene.pull().await, because);
        scene.skopeo_accepts().expect_err(because);
    }
}

#[tokio::test]
async fn an_old_hash_is_refused_here_alone() {
    skip_unless!(machine::has_program("gpg").and_then(|()| machine::has_program("skopeo")));
    let scene = Scene::new().await;
    let message = scene
        .gpg
        .sign(&scene.key, &["--digest-algo", "SHA1"], &scene.own_payload());
    scene.put(scene.built.digest(), &[message]);
    assert_refused(scene.pull().await, "it uses SHA-1, which is too weak");
    scene.skopeo_accepts().unwrap();
}
