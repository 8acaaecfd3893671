//! A registry's bad days: what heals is pulled, what doesn't fails with the right kind.

use std::time::{Duration, Instant};

use orlop_image_store::{Credentials, Error, Image, PullRequest, Result};
use orlop_testkit::proxy::{Door, TokenRules};
use orlop_testkit::{BuiltImage, Fault, FaultProxy, ImageBuilder, Layer, Login, Registry, Rule};

use crate::support::{Place, assert_unavailable, content, pull};

/// An image of one layer in four pieces, and a small one, behind a proxy.
struct Scene {
    registry: Registry,
    proxy: FaultProxy,
    built: BuiltImage,
    place: Place,
}

impl Scene {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(set: impl FnOnce(&mut orlop_image_store::Config)) -> Self {
        let registry = Registry::start();
        let built = ImageBuilder::new()
            .layer(
                Layer::new()
                    .noise("noise", 13 << 20)
                    .file("f", "whole", 0o644),
            )
            .layer(Layer::new().file("g", "small", 0o644))
            .build();
        registry.push(&built, "app:1").await;
        let proxy = FaultProxy::before(registry.address());
        let place = Place::with(set).await;
        Self {
            registry,
            proxy,
            built,
            place,
        }
    }

    async fn pull(&self) -> Result<Image> {
        self.place.pull(&self.proxy.reference("app:1")).await
    }

    fn large_blob(&self) -> String {
        format!("blobs/{}", self.built.layers[0].digest)
    }

    async fn assert_whole(&self, image: &Image) {
        let mount = self
            .place
            .images
            .mount_read_only(&image.id)
            .await
            .expect("mount the image");
        assert_eq!(
            (content(&mount, "f"), content(&mount, "g")),
            ("whole".into(), "small".into())
        );
    }

    async fn assert_nothing_left(&self) {
        // A layer that was being put in its place goes with the sweep after that.
        let end = Instant::now() + Duration::from_secs(10);
        let left = || self.place.layer_dirs() + self.place.entries("tmp").len();
        while left() > 0 && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(self.place.layer_dirs(), 0);
        assert_eq!(self.place.entries("tmp").len(), 0);
        assert!(self.place.images.list().is_empty());
    }
}

#[tokio::test]
async fn what_heals_is_pulled() {
    let wait = Duration::from_secs(3);
    let faults: Vec<(&str, Vec<Fault>)> = vec![
        ("cut off", vec![Fault::Truncate { after: 2 << 20 }]),
        (
            "cut off again",
            vec![
                Fault::Truncate { after: 5 << 20 },
                Fault::Truncate { after: 9 },
            ],
        ),
        (
            "stalled",
            vec![Fault::Stall {
                after: 1 << 20,
                hold: wait,
            }],
        ),
        ("disconnected", vec![Fault::Disconnect, Fault::Disconnect]),
        (
            "overloaded",
            vec![Fault::status(503), Fault::status(500), Fault::status(429)],
        ),
        (
            "without ranges",
            vec![Fault::IgnoreRange, Fault::IgnoreRange, Fault::IgnoreRange],
        ),
        (
            "cut off without ranges",
            vec![Fault::Truncate { after: 100_000 }, Fault::IgnoreRange],
        ),
    ];
    for (name, faults) in faults {
        let scene =
            Scene::with(|config| config.progress_timeout = Duration::from_millis(700)).await;
        for fault in faults {
            scene
                .proxy
                .rule(Rule::on(&scene.large_blob(), fault).times(1));
        }
        scene
            .proxy
            .rule(Rule::on("manifests/", Fault::status(502)).times(1));
        let image = scene
            .pull()
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        scene.assert_whole(&image).await;
        assert_eq!(scene.place.entries("ingest").len(), 0, "{name}");
    }
}

#[tokio::test]
async fn what_does_not_heal_fails_with_its_kind_and_leaves_nothing() {
    type Check = fn(&Error) -> bool;
    let table: [(&str, Fault, Check); 5] = [
        ("down", Fault::status(503), |e| {
            matches!(e, Error::RegistryUnavailable { .. })
        }),
        ("forbidden", Fault::status(403), |e| {
            matches!(e, Error::PermissionDenied { .. })
        }),
        ("gone", Fault::status(404), |e| {
            matches!(e, Error::NotInRegistry { .. })
        }),
        ("damaged", Fault::Corrupt { offset: 1000 }, |e| {
            matches!(e, Error::DigestMismatch { .. })
        }),
        ("odd", Fault::status(418), |e| {
            matches!(e, Error::Protocol { .. })
        }),
    ];
    for (name, fault, expected) in table {
        let scene = Scene::with(|config| config.retries = 2).await;
        scene.proxy.rule(Rule::on(&scene.large_blob(), fault));
        let error = scene.pull().await.unwrap_err();
        assert!(expected(&error), "{name}: {error:?}");
        assert!(error.to_string().contains("app:1"), "{name}: {error}");
        // The other layer may just have been finished.
        scene.place.sweep().await;
        scene.assert_nothing_left().await;
        assert_eq!(scene.place.entries("ingest").len(), 0, "{name}");
        scene.proxy.heal();
        scene.assert_whole(&scene.pull().await.unwrap()).await;
    }
}

#[tokio::test]
async fn the_registry_says_when_to_come_back() {
    let scene = Scene::new().await;
    scene
        .proxy
        .rule(Rule::on("manifests/1", Fault::retry_after(429, 1)).times(1));
    let start = Instant::now();
    scene.pull().await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn the_registry_says_when_to_come_back_with_a_date() {
    let scene = Scene::new().await;
    // Whole seconds, so that two of them are at least one; the proxy's own answers bear no date.
    let then = std::time::SystemTime::now() + Duration::from_secs(2);
    let headers = vec![("retry-after".to_owned(), httpdate::fmt_http_date(then))];
    let fault = Fault::Reply {
        status: 503,
        headers,
        body: Vec::new(),
    };
    scene.proxy.rule(Rule::on("manifests/1", fault).times(1));
    let start = Instant::now();
    scene.pull().await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(800));
}

#[tokio::test]
async fn a_registry_that_is_down_is_given_up_soon() {
    let scene = Scene::with(|config| config.retry_pause = Duration::from_millis(500)).await;
    let gone = FaultProxy::alone();
    let reference = gone.reference("app:1");
    drop(gone);
    let start = Instant::now();
    let error = scene.place.pull(&reference).await.unwrap_err();
    assert_unavailable(&error);
    let took = start.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn a_registry_that_never_gets_better_is_given_up_in_time() {
    // Many tries are allowed, but not for longer than five times what one request may wait.
    let scene = Scene::with(|config| {
        config.retries = 1000;
        config.progress_timeout = Duration::from_millis(400);
    })
    .await;
    scene
        .proxy
        .rule(Rule::on("manifests/", Fault::retry_after(429, 1)));
    let start = Instant::now();
    let error = scene.pull().await.unwrap_err();
    assert_unavailable(&error);
    let took = start.elapsed();
    assert!(took < 5 * Duration::from_millis(400), "{took:?}");
}

#[tokio::test]
async fn mirrors_do_what_they_may() {
    let scene = Scene::new().await;
    let resolves = FaultProxy::before(scene.proxy.address());
    let serves = FaultProxy::before(scene.proxy.address());
    let certs = scene.place.scratch.subdir("certs.d");
    let dir = certs.join("registry.example");
    std::fs::create_dir(&dir).unwrap();
    let hosts = format!(
        "server = \"http://127.0.0.1:1\"\n\
         [host.\"http://{}\"]\ncapabilities = [\"resolve\"]\n\
         [host.\"http://{}/v2/\"]\ncapabilities = [\"pull\"]\noverride_path = true\n\
         [host.\"http://{}/v2/\".header]\nx-key = [\"one\", \"two\"]\n",
        resolves.host(),
        serves.host(),
        serves.host(),
    );
    std::fs::write(dir.join("hosts.toml"), hosts).unwrap();
    let place = Place::with(|config| config.registry_dirs = vec![certs]).await;
    place.pull("registry.example/app:1").await.unwrap();
    let paths = |proxy: &FaultProxy| -> Vec<String> {
        proxy.seen().into_iter().map(|seen| seen.path).collect()
    };
    let asked = paths(&resolves);
    assert!(
        !asked.is_empty() && asked.iter().all(|path| path.contains("/manifests/1")),
        "{asked:?}"
    );
    let asked = paths(&serves);
    assert!(
        !asked.is_empty() && asked.iter().all(|path| path.starts_with("/v2/app/blobs/")),
        "{asked:?}"
    );
    for seen in serves.seen() {
        let keys: Vec<_> = seen.headers.get_all("x-key").iter().collect();
        assert_eq!(keys, ["one", "two"]);
    }
    assert!(
        resolves
            .seen()
            .iter()
            .all(|seen| !seen.headers.contains_key("x-key"))
    );
}

#[tokio::test]
async fn downloads_share_one_limit() {
    for limit in [1, 3] {
        let scene = Scene::with(|config| config.max_connections = limit).await;
        scene.proxy.rule(Rule::on(
            "blobs/",
            Fault::Slow {
                bytes_per_second: 100 << 20,
            },
        ));
        let more = ImageBuilder::new()
            .layer(Layer::new().noise("other", 9 << 20))
            .build();
        scene.registry.push(&more, "more:1").await;
        let name = scene.proxy.reference("more:1");
        let other = scene.place.pull(&name);
        let (one, two) = tokio::join!(scene.pull(), other);
        one.unwrap();
        two.unwrap();
        assert_eq!(scene.proxy.most_at_once(), limit);
    }
}

#[tokio::test]
async fn compressed_layers_are_kept_where_that_is_wished() {
    for keep in [false, true] {
        let scene = Scene::with(|config| config.keep_blobs = keep).await;
        let image = scene.pull().await.unwrap();
        let mut kept: Vec<_> = scene
            .place
            .entries("blobs")
            .iter()
            .map(|path| orlop_image_store::Digest::of(&std::fs::read(path).unwrap()).to_string())
            .collect();
        kept.sort();
        let mut layers: Vec<_> = scene
            .built
            .layers
            .iter()
            .map(|l| l.digest.clone())
            .collect();
        layers.sort();
        assert_eq!(kept, if keep { layers } else { Vec::new() });
        let id = image.id.to_string();
        scene.place.images.remove(&id).await.unwrap();
        assert_eq!(scene.place.entries("blobs").len(), 0);
    }
}

#[tokio::test]
async fn a_broken_off_download_goes_on_after_a_restart() {
    let mut scene = Scene::with(|config| {
        config.retries = 0;
        config.connections_per_blob = 1;
    })
    .await;
    // Two of the four pieces come through.
    scene
        .proxy
        .rule(Rule::on(&scene.large_blob(), Fault::status(503)).skip(2));
    let error = scene.pull().await.unwrap_err();
    assert_unavailable(&error);
    scene.place.reopen().await;
    scene.proxy.heal();
    let before = scene.proxy.seen().len();
    let image = scene.pull().await.unwrap();
    scene.assert_whole(&image).await;
    let ranges: Vec<String> = scene.proxy.seen()[before..]
        .iter()
        .filter(|seen| seen.path.contains(&scene.large_blob()))
        .map(|seen| seen.headers["range"].to_str().unwrap().to_owned())
        .collect();
    assert_eq!(ranges.len(), 2, "{ranges:?}");
    assert!(ranges[0].starts_with("bytes=8388608-"), "{ranges:?}");
}

#[tokio::test]
async fn a_damaged_partial_download_is_fetched_anew() {
    let mut scene = Scene::with(|config| {
        config.retries = 0;
        config.connections_per_blob = 1;
    })
    .await;
    scene
        .proxy
        .rule(Rule::on(&scene.large_blob(), Fault::status(503)).skip(1));
    scene.pull().await.unwrap_err();
    scene.place.images.close().await;
    for path in scene.place.entries("ingest") {
        if path
            .extension()
            .is_some_and(|extension| extension == "data")
        {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[100_000] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
    scene.place.reopen().await;
    scene.proxy.heal();
    scene.assert_whole(&scene.pull().await.unwrap()).await;
}

#[tokio::test]
async fn a_hundred_callers_fetch_an_image_once() {
    let scene = Scene::new().await;
    let pulls: Vec<_> = (0..100)
        .map(|_| {
            let (images, name) = (scene.place.images.clone(), scene.proxy.reference("app:1"));
            tokio::spawn(async move { pull(&images, &name).await })
        })
        .collect();
    for pulled in pulls {
        assert_eq!(
            pulled.await.unwrap().unwrap().id.to_string(),
            scene.built.id()
        );
    }
    assert_eq!(scene.proxy.count(http::Method::GET, "manifests/1"), 1);
    let small = format!("blobs/{}", scene.built.layers[1].digest);
    assert_eq!(scene.proxy.count(http::Method::GET, &small), 1);
}

#[tokio::test]
async fn tokens_are_fetched_and_renewed_in_the_middle_of_a_pull() {
    let scene = Scene::new().await;
    let login = Login::new("sailor", "secret");
    let rules = TokenRules {
        login: Some(login.clone()),
        identity_token: Some("refresh".to_owned()),
        requests_per_token: Some(3),
    };
    scene.proxy.guard(Door::Bearer(rules));
    let request = |auth: Credentials| PullRequest {
        reference: scene.proxy.reference("app:1"),
        auth: Some(auth),
        ..PullRequest::default()
    };
    let error = scene.pull().await.unwrap_err();
    assert!(matches!(error, Error::Unauthenticated { .. }), "{error}");
    let wrong = Credentials {
        identity_token: "guess".to_owned(),
        ..Credentials::default()
    };
    let error = scene.place.images.pull(request(wrong)).await.unwrap_err();
    assert!(matches!(error, Error::Unauthenticated { .. }), "{error}");
    let identity = Credentials {
        identity_token: "refresh".to_owned(),
        ..Credentials::default()
    };
    let image = scene.place.images.pull(request(identity)).await.unwrap();
    scene.assert_whole(&image).await;
    scene
        .place
        .images
        .remove(&image.id.to_string())
        .await
        .unwrap();
    let password = Credentials {
        username: login.user,
        password: login.password,
        ..Credentials::default()
    };
    scene.place.images.pull(request(password)).await.unwrap();
}

#[tokio::test]
async fn credentials_and_mirrors_keep_apart() {
    let scene = Scene::with(|_| {}).await;
    let elsewhere = FaultProxy::before(scene.proxy.address());
    let broken = FaultProxy::alone();
    scene
        .proxy
        .guard(Door::Basic(Login::new("sailor", "secret")));
    let certs = scene.place.scratch.subdir("certs.d");
    let dir = certs.join("registry.example");
    std::fs::create_dir(&dir).unwrap();
    let hosts = format!(
        "server = \"http://{}\"\n[host.\"http://{}\"]\n[host.\"http://127.0.0.1:1\"]\n",
        scene.proxy.host(),
        broken.host()
    );
    std::fs::write(dir.join("hosts.toml"), hosts).unwrap();
    let mut place = Place::with(|config| config.registry_dirs = vec![certs]).await;
    // The small layer is on another host.
    let small = format!("blobs/{}", scene.built.layers[1].digest);
    let target = format!("http://{}/elsewhere", elsewhere.host());
    scene.proxy.rule(Rule::on(&small, Fault::redirect(&target)));
    elsewhere.rule(Rule::on(
        "/elsewhere",
        Fault::content(
            "application/octet-stream",
            scene.built.layers[1].bytes.clone(),
        ),
    ));
    let request = PullRequest {
        reference: "registry.example/app:1".to_owned(),
        auth: Some(Credentials {
            username: "sailor".to_owned(),
            password: "secret".to_owned(),
            ..Credentials::default()
        }),
        ..PullRequest::default()
    };
    let image = place.images.pull(request).await.unwrap();
    assert_eq!(image.repo_tags, ["registry.example/app:1"]);
    let (strange, mirrored) = (elsewhere.seen(), broken.seen());
    assert!(!strange.is_empty() && !mirrored.is_empty());
    for seen in strange.iter().chain(&mirrored) {
        assert!(!seen.headers.contains_key("authorization"), "{}", seen.path);
    }
    assert!(
        mirrored[0].path.ends_with("?ns=registry.example"),
        "{}",
        mirrored[0].path
    );
    place.reopen().await;
}

#[tokio::test]
async fn a_full_disk_is_named_and_nothing_stays() {
    let scene = Scene::new().await;
    let small = scene.place.scratch.subdir("small");
    let size = c"size=20m";
    rustix::mount::mount(
        "tmpfs",
        &small,
        "tmpfs",
        rustix::mount::MountFlags::empty(),
        size,
    )
    .unwrap();
    let place = Place::with(|config| config.root = small.join("images")).await;
    let error = place
        .pull(&scene.proxy.reference("app:1"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
    for dir in ["layers", "tmp", "ingest"] {
        crate::support::until(dir, || place.entries(dir).is_empty()).await;
    }
    // Far too large to begin with: refused before a byte is fetched.
    let seen = scene.proxy.count(http::Method::GET, "blobs/");
    let huge = ImageBuilder::new()
        .layer(Layer::new().noise("noise", 21 << 20))
        .build();
    scene.registry.push(&huge, "huge:1").await;
    let error = place
        .pull(&scene.proxy.reference("huge:1"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
    // Its configuration is all that was fetched.
    assert_eq!(scene.proxy.count(http::Method::GET, "blobs/"), seen + 1);
}

#[tokio::test]
async fn a_registry_that_points_into_the_node_is_refused_by_name() {
    let scene = Scene::with(|config| config.retries = 0).await;
    // Where clouds keep a node's credentials.
    let inside = "169.254.169.254";
    let asks = vec![(
        "www-authenticate".to_owned(),
        format!("Bearer realm=\"http://{inside}/token\",service=\"x\""),
    )];
    let token = Fault::Reply {
        status: 401,
        headers: asks,
        body: Vec::new(),
    };
    let redirect = Fault::redirect(&format!("http://{inside}/latest/meta-data"));
    for (place, fault) in [("manifests/1", token), (&*scene.large_blob(), redirect)] {
        scene.proxy.rule(Rule::on(place, fault));
        let error = scene.pull().await.unwrap_err().to_string();
        assert!(error.contains(inside), "{place}: {error}");
        assert!(error.contains("images.internal_hosts"), "{place}: {error}");
        scene.proxy.heal();
    }
    scene.assert_whole(&scene.pull().await.unwrap()).await;
}

#[tokio::test]
async fn a_registry_whose_answers_never_end_fails_its_pull_and_takes_no_memory() {
    // Longer than the test waits: it must be the length that ends it.
    let scene = Scene::with(|config| {
        config.retries = 0;
        config.progress_timeout = Duration::from_mins(5);
    })
    .await;
    let configuration = format!("blobs/{}", scene.built.config.digest);
    let limit = "4194304 bytes";
    for (path, status, told) in [
        ("manifests/", 200, limit),
        ("manifests/", 404, "404"),
        (&*configuration, 200, limit),
        (&*configuration, 500, "500"),
    ] {
        scene.proxy.rule(Rule::on(path, Fault::Endless { status }));
        let error = failure(&scene).await;
        assert!(error.contains(told), "{path} {status}: {error}");
        scene.proxy.heal();
    }
    scene.proxy.guard(Door::Bearer(TokenRules::default()));
    scene
        .proxy
        .rule(Rule::on("/token", Fault::Endless { status: 200 }));
    let error = failure(&scene).await;
    assert!(error.contains("1048576 bytes"), "{error}");
    scene.assert_nothing_left().await;
}

/// What the pull says when it fails, which it must do soon.
async fn failure(scene: &Scene) -> String {
    let pull = tokio::time::timeout(Duration::from_secs(20), scene.pull());
    let ended = pull.await.expect("it ends");
    ended.expect_err("it fails").to_string()
}
