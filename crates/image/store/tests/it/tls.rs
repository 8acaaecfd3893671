//! Registries behind TLS: whom the node trusts, and what it shows, is in `hosts.toml`.

use std::path::Path;
use std::time::{Duration, Instant};

use orlop_image_store::{Error, Image, Result};
use orlop_testkit::{
    Authority, FaultProxy, ImageBuilder, Layer, Registry, TlsFront, assert_contains, machine,
    skip_unless,
};

use crate::support::{Place, assert_unavailable, content};

/// A store whose registry settings can be rewritten between pulls.
struct Scene {
    place: Place,
    registry: Registry,
    authority: Authority,
}

impl Scene {
    async fn new() -> Self {
        let registry = Registry::start();
        let built = ImageBuilder::new()
            .layer(Layer::new().file("f", "secure", 0o644).noise("n", 5 << 20))
            .build();
        registry.push(&built, "app:1").await;
        let mut place = Place::open().await;
        place.config.registry_dirs = vec![place.scratch.subdir("certs.d")];
        // As persistent as a node is; what must be quick is to be so anyway.
        place.config.retry_pause = Duration::from_millis(500);
        place.reopen().await;
        let authority = Authority::new(&place.scratch.subdir("ca"), "authority");
        Self {
            place,
            registry,
            authority,
        }
    }

    fn front(&self, clients: Option<&Path>) -> TlsFront {
        let own = self.authority.issue("server", "IP:127.0.0.1");
        TlsFront::before(self.registry.address(), &own, clients)
    }

    fn settings(&self, host: &str, text: &str) {
        let dir = self.place.config.registry_dirs[0].join(host);
        std::fs::create_dir_all(&dir).unwrap();
        let text = format!("server = \"https://{host}\"\n{text}\n");
        std::fs::write(dir.join("hosts.toml"), text).unwrap();
    }

    /// Pulls anew, whatever is here.
    async fn pull(&self, host: &str) -> Result<Image> {
        let name = format!("{host}/app:1");
        self.place.images.remove(&name).await.unwrap();
        self.place.pull(&name).await
    }
}

#[tokio::test]
async fn authorities_come_from_hosts_toml_at_each_pull() {
    skip_unless!(machine::has_program("openssl"));
    let scene = Scene::new().await;
    let front = scene.front(None);
    let host = front.host();
    let stranger = Authority::new(&scene.place.scratch.subdir("other"), "stranger");
    let trusting = |authority: &Authority| format!("ca = {:?}", authority.certificate());
    for untrusted in [String::new(), trusting(&stranger)] {
        scene.settings(&host, &untrusted);
        let start = Instant::now();
        let error = scene.pull(&host).await.unwrap_err();
        assert_unavailable(&error);
        let text = error.to_string();
        assert_contains!(text, "certificate is not trusted", "hosts.toml");
        let took = start.elapsed();
        assert!(
            took < Duration::from_secs(5),
            "trying again can't help, and took {took:?}"
        );
    }
    for trusted in [trusting(&scene.authority), "skip_verify = true".to_owned()] {
        scene.settings(&host, &trusted);
        let image = scene
            .pull(&host)
            .await
            .unwrap_or_else(|error| panic!("{trusted}: {error}"));
        let mount = scene.place.images.mount_read_only(&image.id).await.unwrap();
        assert_eq!(content(&mount, "f"), "secure");
    }
    // A certificate for another name is as bad as none.
    let elsewhere = scene.authority.issue("elsewhere", "DNS:elsewhere.example");
    let front = TlsFront::before(scene.registry.address(), &elsewhere, None);
    scene.settings(&front.host(), &trusting(&scene.authority));
    let error = scene.pull(&front.host()).await.unwrap_err();
    assert!(error.to_string().contains("not trusted"), "{error}");
}

#[tokio::test]
async fn a_client_s_certificate_is_shown_where_it_is_asked_for() {
    skip_unless!(machine::has_program("openssl"));
    let scene = Scene::new().await;
    let front = scene.front(Some(scene.authority.certificate()));
    let host = front.host();
    let own = scene.authority.issue("node", "DNS:node.example");
    let both = scene.place.scratch.path("both.pem");
    let pem = [&own.certificate, &own.key].map(|path| std::fs::read(path).unwrap());
    std::fs::write(&both, pem.concat()).unwrap();
    let ca = format!("ca = {:?}", scene.authority.certificate());

    scene.settings(&host, &ca);
    let error = scene.pull(&host).await.unwrap_err().to_string();
    assert!(error.contains("\"client\""), "{error}");
    for client in [
        format!("client = [[{:?}, {:?}]]", own.certificate, own.key),
        format!("client = {both:?}"),
        format!("client = [{both:?}]"),
    ] {
        scene.settings(&host, &format!("{ca}\n{client}"));
        scene
            .pull(&host)
            .await
            .unwrap_or_else(|error| panic!("{client}: {error}"));
    }
    // Files that don't hold what they should are named.
    for client in ["client = \"/nowhere.pem\"", "client = \"hosts.toml\""] {
        scene.settings(&host, &format!("{ca}\n{client}"));
        let error = scene.pull(&host).await.unwrap_err();
        assert!(matches!(error, Error::Configuration { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_registry_without_tls_is_told_apart() {
    let scene = Scene::new().await;
    let proxy = FaultProxy::before(scene.registry.address());
    scene.settings(&proxy.host(), "");
    let error = scene.pull(&proxy.host()).await.unwrap_err().to_string();
    assert!(error.contains("does not speak TLS"), "{error}");
}
