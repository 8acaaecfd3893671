//! What the node's surroundings say: proxies in the environment, credential helpers, the
//! system's authorities.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use http_body_util::Full;
use orlop_testkit::proxy::{Door, TokenRules};
use orlop_testkit::{
    Authority, BuiltImage, Fault, FaultProxy, ImageBuilder, Layer, Login, Registry, Rule, Scratch,
    TlsFront, WebProxy, assert_contains, machine, skip_unless,
};

use crate::child::{pulling, run, with_certs, with_credentials};

struct Scene {
    scratch: Scratch,
    _registry: Registry,
    proxy: FaultProxy,
    built: BuiltImage,
}

impl Scene {
    async fn new() -> Self {
        let registry = Registry::start();
        let built = ImageBuilder::new()
            .layer(Layer::new().noise("n", 300_000))
            .build();
        registry.push(&built, "app:1").await;
        Self {
            scratch: Scratch::new(),
            proxy: FaultProxy::before(registry.address()),
            _registry: registry,
            built,
        }
    }

    /// A store that nothing was pulled into.
    fn root(&self) -> PathBuf {
        self.scratch.path(&format!("{:x}", rand::random::<u64>()))
    }

    fn certs(&self, host: &str, text: &str) -> PathBuf {
        let dir = self.scratch.subdir("certs.d");
        std::fs::create_dir_all(dir.join(host)).unwrap();
        std::fs::write(dir.join(host).join("hosts.toml"), text).unwrap();
        dir
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.scratch.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

#[tokio::test]
async fn the_environment_names_the_way_out() {
    skip_unless!(machine::has_program("openssl"));
    let scene = Scene::new().await;
    let authority = Authority::new(&scene.scratch.subdir("ca"), "authority");
    let own = authority.issue("server", "DNS:secure.example");
    let front = TlsFront::before(scene.proxy.address(), &own, None);
    let here = format!("0.0.0.0:{}", scene.proxy.address().port());
    let world = WebProxy::knowing([
        ("plain.example:5000", scene.proxy.address()),
        ("secure.example:443", front.address()),
        (here.as_str(), scene.proxy.address()),
    ]);
    scene.certs(
        "plain.example:5000",
        "server = \"http://plain.example:5000\"",
    );
    scene.certs(&here, &format!("server = \"http://{here}\""));
    let ca = format!("ca = {:?}", authority.certificate());
    let certs = scene.certs("secure.example", &ca);

    let through = |reference: &str, environment: &[(&str, &str)]| {
        let mut command = pulling(&scene.root(), reference);
        command.envs(environment.iter().copied());
        let seen = world.seen().len();
        let pulled = run(with_certs(&mut command, &certs));
        (pulled, world.seen()[seen..].to_vec())
    };
    let url = world.url();

    let (pulled, seen) = through("plain.example:5000/app:1", &[("HTTP_PROXY", &url)]);
    assert_eq!(pulled, Ok(()));
    assert!(seen[0].starts_with("GET http://plain.example:5000/v2/app/manifests/1 "));

    let login = world.url_as("me", "word");
    let (pulled, seen) = through("secure.example/app:1", &[("https_proxy", &login)]);
    assert_eq!(pulled, Ok(()));
    assert!(seen[0].starts_with("CONNECT secure.example:443 "));
    // base64 of "me:word"
    let sent = seen[0].to_lowercase();
    assert_contains!(sent, "proxy-authorization: basic bwu6d29yza==");

    let local = format!("{here}/app:1");
    let (pulled, seen) = through(&local, &[("HTTP_PROXY", &url)]);
    assert_eq!((pulled, seen.is_empty()), (Ok(()), false));
    let (pulled, seen) = through(&local, &[("HTTP_PROXY", &url), ("NO_PROXY", "a,0.0.0.0")]);
    assert_eq!((pulled, seen.len()), (Ok(()), 0));
    // Loopback is this machine, whatever the environment says.
    let loopback = scene.proxy.reference("app:1");
    let (pulled, seen) = through(&loopback, &[("HTTP_PROXY", &url), ("ALL_PROXY", &url)]);
    assert_eq!((pulled, seen.len()), (Ok(()), 0));

    // Who isn't known there isn't there.
    let (pulled, _) = through("nobody.example/app:1", &[("HTTPS_PROXY", &url)]);
    let error = pulled.unwrap_err();
    assert!(error.contains("nobody.example is unavailable"), "{error}");
}

#[tokio::test]
async fn credential_helpers_are_asked() {
    let scene = Scene::new().await;
    let (host, reference) = (scene.proxy.host(), scene.proxy.reference("app:1"));
    let bin = scene.scratch.subdir("bin");
    let log = scene.scratch.path("asked");
    let helper = |name: &str, answer: &str| {
        let text = format!(
            "#!/bin/sh\nread -r server\necho \"$1 $server\" >> {}\n{answer}\n",
            log.display()
        );
        scene.file(&format!("bin/docker-credential-{name}"), &text, 0o755);
    };
    helper(
        "good",
        r#"echo '{"ServerURL":"x","Username":"sailor","Secret":"secret"}'"#,
    );
    helper(
        "token",
        r#"echo '{"ServerURL":"x","Username":"<token>","Secret":"refresh"}'"#,
    );
    helper(
        "none",
        "echo 'credentials not found in native keychain'; exit 1",
    );
    helper("odd", "echo hello");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let pulled = |config: serde_json::Value| {
        let file = scene.file("config.json", &config.to_string(), 0o600);
        let mut command = pulling(&scene.root(), &reference);
        run(with_credentials(&mut command, &file).env("PATH", &path))
    };
    use serde_json::json;

    scene
        .proxy
        .guard(Door::Basic(Login::new("sailor", "secret")));
    assert_eq!(pulled(json!({ "credsStore": "good" })), Ok(()));
    assert_eq!(
        std::fs::read_to_string(&log).unwrap().lines().next(),
        Some(format!("get {host}").as_str())
    );
    // One for this host comes before one for all.
    let one = json!({ "credHelpers": { host.as_str(): "good" }, "credsStore": "none" });
    assert_eq!(pulled(one), Ok(()));
    // A helper that knows nothing leaves the word to the file.
    let login = json!({ host.as_str(): { "auth": "c2FpbG9yOnNlY3JldA==" } });
    let rest = json!({ "credsStore": "none", "auths": login });
    assert_eq!(pulled(rest), Ok(()));
    for (config, reason) in [
        (json!({ "credsStore": "none" }), "no credentials are known"),
        (json!({ "credsStore": "odd" }), "docker-credential-odd"),
        (
            json!({ "credsStore": "missing" }),
            "docker-credential-missing",
        ),
        (
            json!({ "credsStore": "../../bin/sh" }),
            "not the name of a credential helper",
        ),
    ] {
        let error = pulled(config).unwrap_err();
        assert!(error.contains(reason), "{reason}: {error}");
    }

    scene.proxy.guard(Door::Bearer(TokenRules {
        identity_token: Some("refresh".to_owned()),
        ..TokenRules::default()
    }));
    assert_eq!(pulled(json!({ "credsStore": "token" })), Ok(()));
    let entry = json!({ "auths": { host.as_str(): { "identitytoken": "refresh" } } });
    assert_eq!(pulled(entry), Ok(()));
}

#[tokio::test]
async fn a_registry_token_is_presented_as_it_is() {
    let scene = Scene::new().await;
    let login = Login::new("sailor", "secret");
    scene.proxy.guard(Door::Bearer(TokenRules {
        login: Some(login.clone()),
        ..TokenRules::default()
    }));
    let ask = http::Request::get("/token?scope=repository:app:pull")
        .header("authorization", login.basic())
        .body(Full::default())
        .unwrap();
    let answer = orlop_testkit::http::send(scene.proxy.address(), ask)
        .await
        .unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let asked = scene.proxy.count(http::Method::GET, "/token");
    let host = scene.proxy.host();
    let entry = serde_json::json!({ "auths": { host: { "registrytoken": answer["token"] } } });
    let file = scene.file("config.json", &entry.to_string(), 0o600);
    let mut command = pulling(&scene.root(), &scene.proxy.reference("app:1"));
    assert_eq!(run(with_credentials(&mut command, &file)), Ok(()));
    assert_eq!(scene.proxy.count(http::Method::GET, "/token"), asked);
}

#[tokio::test]
async fn foreign_layers_are_fetched_from_where_the_manifest_says() {
    skip_unless!(machine::has_program("openssl"));
    let scene = Scene::new().await;
    let layer = &scene.built.layers[0];
    let authority = Authority::new(&scene.scratch.subdir("ca"), "authority");
    let own = authority.issue("server", "IP:127.0.0.1");
    let elsewhere = FaultProxy::alone();
    elsewhere.rule(Rule::on("/layer", Fault::content("", layer.bytes.clone())));
    let down = format!("http://{}/layer", elsewhere.host());
    elsewhere.rule(Rule::on("/down", Fault::redirect(&down)));
    let front = TlsFront::before(elsewhere.address(), &own, None);
    let serve = |url: &str| {
        let registry = FaultProxy::alone();
        let config = scene.built.config.bytes.clone();
        let descriptor = |kind: &str, digest: &str, size: usize| serde_json::json!({ "mediaType": kind, "digest": digest, "size": size });
        let mut foreign = descriptor(
            "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
            &layer.digest,
            layer.bytes.len(),
        );
        foreign["urls"] = serde_json::json!([url]);
        let manifest = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": descriptor(
                "application/vnd.docker.container.image.v1+json",
                scene.built.id(),
                config.len(),
            ),
            "layers": [foreign],
        });
        let kind = "application/vnd.docker.distribution.manifest.v2+json";
        registry.rule(Rule::on(
            "manifests/1",
            Fault::content(kind, manifest.to_string()),
        ));
        registry.rule(Rule::on(scene.built.id(), Fault::content("", config)));
        registry
    };
    let pulled = |url: &str| {
        let registry = serve(url);
        let mut command = pulling(&scene.root(), &registry.reference("app:1"));
        run(command.env("SSL_CERT_FILE", authority.certificate()))
    };
    assert_eq!(pulled(&format!("https://{}/layer", front.host())), Ok(()));
    assert!(
        elsewhere
            .seen()
            .iter()
            .all(|seen| !seen.headers.contains_key("authorization"))
    );
    let error = pulled(&format!("https://{}/down", front.host())).unwrap_err();
    assert!(
        error.contains("redirects to an address that is not https"),
        "{error}"
    );
    let error = pulled(&down).unwrap_err();
    assert!(error.contains("is not an https address"), "{error}");
}
