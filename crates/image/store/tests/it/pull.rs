//! Pulling, listing, naming and removing images, with a real registry.

use std::time::Duration;

use orlop_image_store::{Error, PullRequest};
use orlop_testkit::{Compression, Format, ImageBuilder, Layer, Registry};

use crate::support::{self, Place, assert_unavailable, content};

#[tokio::test]
async fn every_kind_of_image_is_pulled_and_mounted() {
    let registry = Registry::start();
    let place = Place::open().await;
    for format in [Format::Oci, Format::Docker] {
        for index in [false, true] {
            let mut builder = ImageBuilder::new().format(format);
            for (n, how) in [Compression::Gzip, Compression::Zstd, Compression::Plain]
                .into_iter()
                .enumerate()
            {
                let layer = Layer::new().file(&format!("f{n}"), n.to_string(), 0o644);
                builder = builder.packed(layer.file("top", n.to_string(), 0o644), how);
            }
            if index {
                builder = builder.index();
            }
            let built = builder.marked(&format!("{format:?}{index}")).build();
            let name = format!("a/{format:?}-{index}:1").to_lowercase();
            registry.push(&built, &name).await;
            let image = place.pull(&registry.reference(&name)).await.unwrap();
            assert_eq!(image.id.to_string(), built.id());
            assert_eq!(image.repo_tags, [registry.reference(&name)]);
            let repository = registry.reference(name.split(':').next().unwrap());
            assert_eq!(
                image.repo_digests,
                [format!("{repository}@{}", built.digest())]
            );
            assert_eq!(place.images.layers(&image.id).await.unwrap().len(), 3);
            let mount = place.images.mount_read_only(&image.id).await.unwrap();
            for (file, expected) in [("f0", "0"), ("f1", "1"), ("f2", "2"), ("top", "2")] {
                assert_eq!(content(&mount, file), expected, "{name} {file}");
            }
        }
    }
    // The same three layers each time.
    assert_eq!(place.layer_dirs(), 3);
}

#[tokio::test]
async fn one_image_under_many_names_is_removed_by_any_of_them() {
    let registry = Registry::start();
    let place = Place::open().await;
    let built = ImageBuilder::new()
        .layer(Layer::new().file("f", "x", 0o644))
        .build();
    for name in ["one:1", "one:2", "two:1"] {
        registry.push(&built, name).await;
        place.pull(&registry.reference(name)).await.unwrap();
    }
    let images = place.images.list();
    assert_eq!(images.len(), 1);
    assert_eq!(images[0].repo_tags.len(), 3);
    assert_eq!(images[0].repo_digests.len(), 2);
    let removals = (0..5).map(|_| {
        let (images, name) = (place.images.clone(), registry.reference("one:2"));
        tokio::spawn(async move { images.remove(&name).await })
    });
    for removal in removals.collect::<Vec<_>>() {
        removal.await.unwrap().unwrap();
    }
    assert!(place.images.list().is_empty());
    assert_eq!(place.layer_dirs(), 0);
    assert_eq!(place.images.fs_info().used_bytes, 0);
}

#[tokio::test]
async fn a_pull_by_digest_gives_one_digest_and_no_tag() {
    let registry = Registry::start();
    let place = Place::open().await;
    let built = ImageBuilder::new()
        .layer(Layer::new().file("f", "x", 0o644))
        .build();
    registry.push(&built, "app:1").await;
    let reference = registry.reference(&format!("app@{}", built.digest()));
    let image = place.pull(&reference).await.unwrap();
    assert_eq!(image.repo_tags, Vec::<String>::new());
    assert_eq!(image.repo_digests, std::slice::from_ref(&reference));
    assert_eq!(
        place.images.find(&reference).await.unwrap().unwrap().id,
        image.id
    );
    assert_eq!(
        place
            .images
            .find(&image.id.hex()[..10])
            .await
            .unwrap()
            .unwrap()
            .id,
        image.id
    );
}

#[tokio::test]
async fn a_tag_moves_to_the_image_pulled_last() {
    let registry = Registry::start();
    let place = Place::open().await;
    let layer = || Layer::new().file("f", "x", 0o644);
    let mut ids = Vec::new();
    for mark in ["old", "new"] {
        registry
            .push(
                &ImageBuilder::new().layer(layer()).marked(mark).build(),
                "app:1",
            )
            .await;
        ids.push(place.pull(&registry.reference("app:1")).await.unwrap().id);
    }
    let old = place.images.get(&ids[0]).unwrap();
    assert_eq!((old.repo_tags.len(), old.repo_digests.len()), (0, 1));
    let found = place
        .images
        .find(&registry.reference("app:1"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.id, ids[1]);
    // The layer is shared, so one removal doesn't take it from the other.
    place.images.remove(&ids[0].to_string()).await.unwrap();
    place.images.mount_read_only(&ids[1]).await.unwrap();
}

#[tokio::test]
async fn images_and_leases_survive_a_restart_and_leased_layers_a_removal() {
    let registry = Registry::start();
    let mut place = Place::open().await;
    let built = ImageBuilder::new()
        .layer(Layer::new().file("f", "kept", 0o644))
        .config("User", "1002:7".into())
        .build();
    registry.push(&built, "app:1").await;
    let image = place.pull(&registry.reference("app:1")).await.unwrap();
    place.images.lease("container-1", &image).await.unwrap();
    place.reopen().await;
    assert_eq!(place.images.list(), std::slice::from_ref(&image));
    assert_eq!((image.uid(), image.username()), (Some(1002), ""));
    assert_eq!(place.images.leases().len(), 1);
    let done = place.images.remove(&registry.reference("app:1")).await;
    done.unwrap();
    assert!(place.images.list().is_empty());
    assert_eq!(
        content(&place.images.mount_read_only(&image.id).await.unwrap(), "f"),
        "kept"
    );
    place.reopen().await;
    assert_eq!(place.layer_dirs(), 1);
    let freed = place.images.release("container-1").await.unwrap();
    assert_eq!(freed.layers, 1);
    assert_eq!(place.layer_dirs(), 0);
}

#[tokio::test]
async fn a_pull_goes_on_when_its_caller_leaves() {
    let registry = Registry::start();
    let place = Place::open().await;
    let built = ImageBuilder::new()
        .layer(Layer::new().noise("f", 3 << 20))
        .build();
    registry.push(&built, "app:1").await;
    let reference = registry.reference("app:1");
    let hasty = tokio::time::timeout(Duration::from_millis(1), place.pull(&reference));
    assert!(hasty.await.is_err());
    support::until("the pull is done", || !place.images.list().is_empty()).await;
    assert_eq!(
        place
            .images
            .find(&reference)
            .await
            .unwrap()
            .unwrap()
            .id
            .to_string(),
        built.id()
    );
}

#[tokio::test]
async fn one_store_belongs_to_one_process() {
    let place = Place::open().await;
    let second = orlop_image_store::Images::open(place.config.clone()).await;
    assert!(matches!(second.err(), Some(Error::Busy(_))));
}

#[tokio::test]
async fn a_login_is_needed_and_taken_from_the_request_or_the_node() {
    let registry = Registry::start_with_login();
    let login = registry.login().unwrap().clone();
    let built = ImageBuilder::new()
        .layer(Layer::new().file("f", "x", 0o644))
        .build();
    registry.push(&built, "app:1").await;
    let mut place = Place::open().await;
    let request = |user: &str, password: &str| PullRequest {
        reference: registry.reference("app:1"),
        auth: Some(orlop_image_store::Credentials {
            username: user.to_owned(),
            password: password.to_owned(),
            ..Default::default()
        }),
        ..PullRequest::default()
    };
    for refused in [request("", ""), request(&login.user, "guess")] {
        let error = place.images.pull(refused).await.unwrap_err();
        assert!(matches!(error, Error::Unauthenticated { .. }), "{error}");
    }
    place
        .images
        .pull(request(&login.user, &login.password))
        .await
        .unwrap();
    // base64 of the login; and credentials that say whom they are for.
    let encoded = |server: &str| PullRequest {
        reference: registry.reference("app:1"),
        auth: Some(orlop_image_store::Credentials {
            auth: "c2FpbG9yOnNlY3JldA==".to_owned(),
            server_address: server.to_owned(),
            ..Default::default()
        }),
        ..PullRequest::default()
    };
    for server in [String::new(), format!("http://{}/v1/", registry.host())] {
        place.images.pull(encoded(&server)).await.unwrap();
    }
    let error = place.images.pull(encoded("other.example")).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Unauthenticated { .. }), "{error}");
    let file = place.scratch.path("config.json");
    let text = format!(
        r#"{{"auths":{{"{}":{{"username":"{}","password":"{}"}}}}}}"#,
        registry.host(),
        login.user,
        login.password
    );
    std::fs::write(&file, text).unwrap();
    place.config.credential_files = vec![file];
    place.reopen().await;
    place.images.pull(request("", "")).await.unwrap();
}

#[tokio::test]
async fn images_are_pinned_by_pattern() {
    let registry = Registry::start();
    let place = Place::with(|config| config.pinned = vec!["*/keep:*".to_owned()]).await;
    for name in ["a/keep:1", "a/other:1"] {
        let built = ImageBuilder::new().marked(name).build();
        registry.push(&built, name).await;
        let image = place.pull(&registry.reference(name)).await.unwrap();
        assert_eq!(image.pinned, name.contains("keep"), "{name}");
    }
}

#[tokio::test]
async fn what_the_registry_lacks_is_not_found() {
    let registry = Registry::start();
    let place = Place::open().await;
    let error = place
        .pull(&registry.reference("nothing:1"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotInRegistry { .. }), "{error}");
    let error = place.pull("127.0.0.1:1/app").await.unwrap_err();
    assert_unavailable(&error);
    assert_eq!(place.images.remove("never-pulled").await.unwrap().layers, 0);
}
