//! Key providers: programs and services, for all pods and for those of a namespace.

use orlop_testkit::{KeyProvider, ProviderManners, assert_contains};

use super::*;

#[tokio::test]
async fn a_key_provider_opens_what_no_key_here_does() {
    let scene = scene!();
    let (program, file) = (
        scene.scratch.path("provider"),
        scene.scratch.path("providers.json"),
    );
    scene.answer(UNWRAPS);
    let provided = encrypt_layer(&scene.plain, 1, "provider.kit", turned);
    scene.registry.push(&provided, "provided:1").await;

    let refused = scene.pull_for("", "provided:1").await;
    assert_no_key(refused, "key provider \"kit\" is not configured");
    fs::write(&file, scene.providers().to_string()).expect("write");
    for (mode, reason) in [
        (
            "echo 'the vault is shut' >&2; exit 3",
            "exit status: 3: the vault is shut",
        ),
        ("echo '{}'", "the response of the key provider is malformed"),
        ("head -c 100000 /dev/zero", "65536"),
        (
            r#"echo '{"keyunwrapresults":{"optsdata":"e30="}}'"#,
            "is malformed",
        ),
    ] {
        scene.answer(mode);
        assert_no_key(scene.pull_for("", "provided:1").await, reason);
    }
    fs::remove_file(&program).expect("remove");
    assert_no_key(scene.pull_for("", "provided:1").await, "No such file");
    scene.answer(UNWRAPS);
    let image = scene.pull_for("", "provided:1").await.expect("pull");
    assert_eq!(scene.cargo(&image).await, CARGO);
    scene.admit(&image, "any").await.expect("it is asked again");
    scene.answer("exit 1");
    assert_no_key(scene.admit(&image, "any").await, "exit status: 1");

    for (text, reason) in [
        ("{", "EOF"),
        (
            r#"{"key-providers":{"kit":{"cmd":{"path":"provider"}}}}"#,
            "not an absolute path",
        ),
        (
            r#"{"key-providers":{"kit":{}}}"#,
            "neither `cmd` nor `grpc`",
        ),
        (
            r#"{"key-providers":{"kit":{"grpc":"vault.example:50051"}}}"#,
            "keys would be sent to it unencrypted",
        ),
        (
            r#"{"key-providers":{"kit":{"grpc":"localhost:1","grpc-tls":{}}}}"#,
            "kit: \"grpc-tls\" is not supported together with `grpc`",
        ),
    ] {
        fs::write(&file, text).expect("write");
        let error = scene.pull_for("", "provided:1").await.unwrap_err();
        assert!(matches!(error, Error::Keys { .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

/// The file that names no key providers for all, and some for a namespace.
fn of_namespace(scene: &Scene, namespace: &str, config: &str) -> PathBuf {
    scene.put(namespace, "key-providers.json", config.as_bytes())
}

#[tokio::test]
async fn a_service_opens_what_no_key_here_does() {
    let scene = scene!();
    let file = scene.scratch.path("providers.json");
    let socket = scene.scratch.run().join("kit.sock");
    let wrapped = encrypt_layer(&scene.plain, 1, "provider.kit", KeyProvider::wrap);
    scene.registry.push(&wrapped, "served:1").await;
    for provider in [KeyProvider::start(), KeyProvider::start_at(&socket)] {
        fs::write(&file, provider.config("kit")).expect("write");
        let image = scene.pull_for("", "served:1").await.expect("pull");
        assert_eq!(scene.cargo(&image).await, CARGO);
        assert!(image.is_encrypted && provider.unwrapped() > 0);
        let asked = provider.unwrapped();
        scene.admit(&image, "any").await.expect("it is asked again");
        assert!(provider.unwrapped() > asked);

        for (manners, reason) in [
            (
                ProviderManners::Refuses("the vault is shut".to_owned()),
                "PermissionDenied: the vault is shut",
            ),
            (
                ProviderManners::Says(b"{}".to_vec()),
                "the response of the key provider is malformed",
            ),
            (
                ProviderManners::Says(br#"{"keyunwrapresults":{"optsdata":"e30="}}"#.to_vec()),
                "its wrapped key is malformed",
            ),
            (
                ProviderManners::Says(vec![b' '; 1 << 20]),
                "its response is too long",
            ),
            (ProviderManners::IsAnother, "it is not a key provider"),
        ] {
            provider.set(manners);
            assert_no_key(scene.admit(&image, "any").await, reason);
            assert_no_key(scene.pull_for("", "served:1").await, reason);
        }
        // What it says is told, and no more of that than anybody reads.
        provider.set(ProviderManners::Refuses("no\u{7} \u{1b}[31m".repeat(1000)));
        let error = scene.admit(&image, "any").await.unwrap_err().to_string();
        assert!(error.len() < 1000 && !error.contains('\u{1b}'), "{error}");
        provider.set(ProviderManners::Answers);
        scene.admit(&image, "any").await.expect("it is well again");
        let address = provider.address().trim_start_matches("unix://").to_owned();
        drop(provider);
        let error = scene.admit(&image, "any").await;
        assert!(error.as_ref().unwrap_err().to_string().contains(&address));
        assert_no_key(error, "refused");
        let images = &scene.place.images;
        images.remove(&image.id.to_string()).await.expect("remove");
    }
}

#[tokio::test]
async fn a_provider_of_a_namespace_opens_for_its_pods_alone() {
    let scene = scene!();
    let (theirs, ours) = (KeyProvider::start(), KeyProvider::start());
    let wrapped = encrypt_layer(&scene.plain, 1, "provider.kit", KeyProvider::wrap);
    scene.registry.push(&wrapped, "served:1").await;
    let file = of_namespace(&scene, "team", &ours.config("kit"));
    scene.keys("others");
    let image = scene.pull_for("team", "served:1").await.expect("pull");
    scene.admit(&image, "team").await.expect("theirs");
    for namespace in ["", "others", "nobody"] {
        assert_no_key(scene.admit(&image, namespace).await, "is not configured");
        let pulled = scene.pull_for(namespace, "served:1").await;
        assert_no_key(pulled, "is not configured");
    }
    assert_eq!(scene.place.config.keys.check().1.len(), 0);
    // One for all of the same name is asked where that of the namespace does not help.
    let node = scene.scratch.path("providers.json");
    fs::write(&node, theirs.config("kit")).expect("write");
    scene.admit(&image, "others").await.expect("for all");
    let asked = theirs.unwrapped();
    scene.admit(&image, "team").await.expect("by their own");
    assert_eq!(theirs.unwrapped(), asked, "the own one comes first");
    ours.set(ProviderManners::Refuses("no".to_owned()));
    scene.admit(&image, "team").await.expect("by that for all");
    theirs.set(ProviderManners::Refuses("nor here".to_owned()));
    let error = scene.admit(&image, "team").await.unwrap_err().to_string();
    assert_contains!(error, "PermissionDenied: no;", "PermissionDenied: nor here");

    // What is wrong with the file is told, to its namespace alone.
    fs::write(&file, "{").expect("write");
    let error = scene.admit(&image, "team").await.unwrap_err();
    assert_contains!(error.to_string(), "team/key-providers.json");
    let (_, errors) = scene.place.config.keys.check();
    assert_eq!(errors[0].to_string(), error.to_string());
    theirs.set(ProviderManners::Answers);
    scene.admit(&image, "others").await.expect("for all");
    // One for all stands elsewhere.
    of_namespace(&scene, "", &theirs.config("kit"));
    let error = scene.admit(&image, "others").await.unwrap_err().to_string();
    assert_contains!(error, "the file that images.key_providers specifies");
}
