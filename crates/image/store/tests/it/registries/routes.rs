//! Where names lead.

use orlop_image_store::{Error, PolicyFor, PullRequest, StoreForm};
use orlop_testkit::{Authority, FaultProxy, TlsFront};

use super::scene::Scene;

const CONF: &str = r#"
    [[registry]]
    prefix = "app.example"
    location = "@0/m"
    [[registry.mirror]]
    location = "@1"
    [[registry.mirror]]
    location = "@2"
    pull-from-mirror = "digest-only"
    [[registry.mirror]]
    location = "@3/m"
    pull-from-mirror = "tag-only"
    [[registry]]
    prefix = "app.example/blocked"
    blocked = true
    [[registry]]
    prefix = "*.wild.example"
    location = "@2"
"#;

#[tokio::test]
async fn mirrors_are_asked_in_their_order_and_the_registry_last() {
    let scene = Scene::new(4).await;
    scene.write(CONF);
    let digest = scene.built.digest();
    let by_digest = format!("app.example/team/app@{digest}");
    for (name, expected) in [
        (
            "app.example/team/app:1",
            &[(1, "team/app"), (3, "m/team/app"), (0, "m/team/app")][..],
        ),
        (
            &*by_digest,
            &[(1, "team/app"), (2, "team/app"), (0, "m/team/app")],
        ),
        ("a.b.wild.example/m/app:1", &[(2, "m/app")]),
        ("@1/app:1", &[(1, "app")]),
    ] {
        let pull = async || scene.pull(name).await.is_ok();
        let expected: Vec<_> = expected
            .iter()
            .map(|(door, path)| (*door, (*path).to_owned()))
            .collect();
        assert_eq!(scene.sequence(pull).await, expected, "{name}");
        let image = scene.pull(name).await.unwrap();
        // Whoever served it, it is called what it was asked for.
        let full = scene.with_addresses(name);
        let names = [image.repo_tags, image.repo_digests].concat();
        assert!(names.contains(&full), "{names:?}");
        scene.forget().await;
    }
}

#[tokio::test]
async fn what_is_blocked_is_refused_with_the_line_and_nobody_is_asked() {
    let scene = Scene::new(4).await;
    scene.write(CONF);
    for name in ["app.example/blocked/app:1", "APP.example:443/blocked/app"] {
        let error = scene.pull(name).await.unwrap_err();
        assert!(matches!(error, Error::Blocked { .. }), "{error}");
        let place = format!("{}:15", scene.conf.display());
        assert!(error.to_string().contains(&place), "{error}");
    }
    assert_eq!(scene.asked(), []);
    // A later file takes the block away, without a restart.
    scene.add(
        "50.conf",
        "[[registry]]\nprefix = \"app.example/blocked\"\nlocation = \"@0/team\"\n",
    );
    scene.pull("app.example/blocked/app:1").await.unwrap();
    assert_eq!(scene.asked(), [(0, "team/app".to_owned())]);
    scene.add("60.conf", "\n[[registry]]\nblocked = true\n");
    let error = scene
        .pull("app.example/app:1")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("60.conf:2: "), "{error}");
}

#[tokio::test]
async fn what_is_said_of_a_host_holds_for_a_mirror_and_a_new_place_too() {
    let scene = Scene::with(3, |config, scratch| {
        config.registry_dirs = vec![scratch.path("certs.d")];
    })
    .await;
    scene.write(
        "[[registry]]\nprefix = \"app.example\"\nlocation = \"new.example/m\"\n\
         [[registry.mirror]]\nlocation = \"mirror.example\"\n",
    );
    scene.file(
        "certs.d/mirror.example/hosts.toml",
        "server = \"http://@0\"",
    );
    scene.file(
        "certs.d/new.example/hosts.toml",
        "server = \"http://@2\"\n[host.\"http://@1\"]\n",
    );
    // It is not about that name: what was asked for leads elsewhere.
    scene.file(
        "certs.d/app.example/hosts.toml",
        "server = \"http://127.0.0.1:1\"",
    );
    let pull = async || scene.pull("app.example/app:1").await.is_ok();
    let expected = [
        (0, "app".to_owned()),
        (1, "m/app".to_owned()),
        (2, "m/app".to_owned()),
    ];
    assert_eq!(scene.sequence(pull).await, expected);
    scene.pull("app.example/app:1").await.unwrap();
    scene.doors[0].leave();
    scene.forget().await;
    scene.pull("app.example/app:1").await.unwrap();
    // A mirror in `hosts.toml` learns which registry is meant, one in `registries.conf` has it as its own.
    let seen = scene.doors[1].seen();
    assert!(
        seen.iter().all(|seen| seen.path.contains("ns=new.example")),
        "{seen:?}"
    );
}

#[tokio::test]
async fn insecure_means_any_certificate_and_where_there_is_no_tls_none() {
    let scene = Scene::new(1).await;
    let authority = Authority::new(&scene.place.scratch.subdir("ca"), "authority");
    let own = authority.issue("server", "IP:127.0.0.1");
    let front = TlsFront::before(scene.registry.address(), &own, None);
    let conf = |host: &str, insecure: bool| {
        format!(
            "[[registry]]\nprefix = \"app.example\"\nlocation = \"{host}\"\ninsecure = {insecure}\n"
        )
    };
    scene.write(&conf(&front.host(), true));
    scene.pull("app.example/app:1").await.unwrap();
    scene.forget().await;
    scene.write(&conf(&front.host(), false));
    scene.pull("app.example/app:1").await.unwrap_err();
    scene.write(&conf("@0", true));
    scene.pull("app.example/app:1").await.unwrap();
    assert_eq!(scene.asked(), [(0, "app".to_owned())]);
}

#[tokio::test]
async fn what_an_insecure_place_says_by_tls_is_not_asked_again_without() {
    let scene = Scene::new(0).await;
    let authority = Authority::new(&scene.place.scratch.subdir("ca"), "authority");
    let own = authority.issue("server", "IP:127.0.0.1");
    let plain = FaultProxy::before(scene.registry.address());
    let front = TlsFront::before(plain.address(), &own, None);
    scene.write(&format!(
        "[[registry]]\nprefix = \"app.example\"\nlocation = \"{}\"\ninsecure = true\n",
        front.host()
    ));
    let error = scene.pull("app.example/none:1").await.unwrap_err();
    assert!(matches!(error, Error::NotInRegistry { .. }), "{error}");
}

#[tokio::test]
async fn who_would_be_asked_is_told_with_files_and_lines() {
    let scene = Scene::with(4, |config, scratch| {
        config.registry_dirs = vec![scratch.path("certs.d")];
    })
    .await;
    scene.write(&format!(
        "{CONF}\n[aliases]\nshort = \"app.example/team/app\"\n"
    ));
    scene.file(
        "certs.d/@3/hosts.toml",
        "\nserver = \"http://@3\"\ncapabilities = [\"pull\", \"resolve\"]\nskip_verify = true\n",
    );
    let conf = scene.conf.display();
    let explained = scene.place.images.explain("short:1", "").await.unwrap();
    let [name] = &explained.names[..] else {
        panic!("one name: {explained:?}");
    };
    assert_eq!(name.name.to_string(), "app.example/team/app:1");
    assert!(format!("{:?}", explained.rule).contains("Alias"));
    let told: Vec<_> = name
        .hosts
        .iter()
        .map(|host| {
            let source = host.source.clone().unwrap();
            (
                host.url.clone(),
                host.not_asked.is_some(),
                host.is_mirror,
                source,
            )
        })
        .collect();
    let host = |number: usize| scene.doors[number].host();
    let expected = [
        (format!("http://{}/v2/team/app", host(1)), false, true, 5),
        (format!("http://{}/v2/team/app", host(2)), true, true, 7),
        (format!("http://{}/v2/m/team/app", host(3)), false, true, 10),
        (format!("http://{}/v2/m/team/app", host(0)), false, false, 2),
    ];
    let expected =
        expected.map(|(url, off, mirror, line)| (url, off, mirror, format!("{conf}:{line}")));
    assert_eq!(told, expected);
    // The same hosts are asked by a pull.
    let asked: Vec<String> = name
        .hosts
        .iter()
        .filter(|host| host.not_asked.is_none())
        .map(|host| host.url.clone())
        .collect();
    let pull = async || scene.pull("short:1").await.is_ok();
    let pulled = scene.sequence(pull).await;
    let pulled: Vec<String> = pulled
        .into_iter()
        .map(|(door, path)| format!("http://{}/v2/{path}", scene.doors[door].host()))
        .collect();
    assert_eq!(pulled, asked);
    let blocked = scene
        .place
        .images
        .explain("app.example/blocked/x", "")
        .await
        .unwrap();
    let refusal = blocked.names[0].refusal.clone().unwrap();
    assert!(refusal.contains(&format!("{conf}:15")), "{refusal}");
    assert!(blocked.names[0].hosts.is_empty());
}

#[tokio::test]
async fn what_was_pulled_from_a_mirror_is_mended_from_it() {
    // Layers that are files of EROFS are damaged by tests of their own.
    let scene = Scene::with(1, |config, _| config.store = StoreForm::Files).await;
    scene.write("[[registry]]\nprefix = \"app.example\"\nlocation = \"@0\"\n");
    let image = scene.pull("app.example/app:1").await.unwrap();
    let dir = scene.place.images.layer_dirs(&image.id).unwrap().remove(0);
    std::fs::write(dir.join("f"), "y").unwrap();
    let verified = scene.place.images.verify(true).await.unwrap();
    assert!(
        verified.broken.iter().all(|layer| layer.repaired),
        "{verified:?}"
    );
    assert!(!verified.broken.is_empty(), "nothing was found broken");
    let request = PullRequest {
        reference: "app.example/app:1".to_owned(),
        policy: PolicyFor::Repair,
        ..PullRequest::default()
    };
    scene.place.images.pull(request).await.unwrap();
}
