//! Signature policies over engines that keep images otherwise than Debian's, or bring others than they are told to.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use orlop_cri::v1::image_service_server::ImageService as _;
use orlop_cri::v1::runtime_service_server::RuntimeService as _;
use orlop_cri::v1::{
    ContainerConfig, ContainerMetadata, CreateContainerRequest, ImageSpec, ImageStatusRequest,
    Mount, PodSandboxConfig, PodSandboxMetadata, PullImageRequest, RemoveImageRequest,
};
use orlop_dockershim::Shim;
use orlop_dockershim::config::{
    Config, Containers, Hairpin, Images, Network, NetworkPlugin, Streaming,
};
use orlop_image::RegistriesFile;
use orlop_testkit::docker::{PRETENDED_SANDBOX, PretendedEngine};
use orlop_testkit::image::Blob;
use orlop_testkit::{
    BuiltImage, FaultProxy, ImageBuilder, KeyKind, Registry, Scratch, Signer, machine, skip_unless,
};
use serde_json::{Value, json};
use tonic::{Code, Request, Status};

struct Scene {
    shim: Shim,
    engine: PretendedEngine,
    registry: Registry,
    signer: Signer,
    scratch: Scratch,
}

macro_rules! scene {
    ($has_containerd_images:expr) => {{
        skip_unless!(machine::has_program("docker-registry"));
        skip_unless!(machine::has_program("openssl"));
        Box::pin(Scene::new($has_containerd_images)).await
    }};
}

impl Scene {
    async fn new(has_containerd_images: bool) -> Self {
        Self::with(has_containerd_images, |_, _| {}).await
    }

    /// One whose images are asked about otherwise.
    async fn with(
        has_containerd_images: bool,
        change: impl FnOnce(&mut Config, &Registry),
    ) -> Self {
        let scratch = Scratch::new();
        let engine = PretendedEngine::start(scratch.run(), has_containerd_images);
        let registry = Registry::start();
        let signer = Signer::new(&scratch.subdir("keys"), "team", KeyKind::P256);
        let policy = json!({
            "default": [{ "type": "reject" }],
            "transports": { "docker": {
                registry.host(): [{ "type": "sigstoreSigned", "keyPath": signer.public_key() }],
                "free.example": [{ "type": "insecureAcceptAnything" }],
            } },
        });
        std::fs::write(scratch.path("policy.json"), policy.to_string()).unwrap();
        // Nobody is there; no name is looked up.
        let certs = scratch.subdir("certs.d");
        ask_at(&certs, "free.example", "127.0.0.1:9");
        let mut config = config(&scratch, engine.socket());
        change(&mut config, &registry);
        let shim = Shim::start(config, orlop_service::timeline::Metrics::default());
        Self {
            shim: shim.await.expect("start"),
            engine,
            registry,
            signer,
            scratch,
        }
    }

    /// An index with images for several machines, of which ours is the second digest.
    async fn push_index(&self, mark: &str) -> (BuiltImage, String, String) {
        let image = ImageBuilder::busybox().marked(mark).index().build();
        let name = self.registry.push(&image, &format!("{mark}:1")).await;
        let names_it = |it: &&Blob| String::from_utf8_lossy(&it.bytes).contains(image.id());
        let own = image.manifests.iter().find(names_it);
        let own = own.expect("one for this machine").digest.clone();
        (image, name, own)
    }

    async fn sign(&self, digest: &str, name: &str) {
        let path = name.split_once('/').unwrap().1;
        let signature = self.signer.sign_image(digest, name);
        let repository = path.split(':').next().unwrap();
        let signatures = [signature];
        self.registry
            .push_signatures(repository, digest, &signatures)
            .await;
    }

    /// The images that something is known of.
    fn known(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.scratch.path("signatures")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names
            .map(|name| name.trim_end_matches(".json").replacen('-', ":", 1))
            .collect()
    }

    /// Has something be known of that many images, and tells their ids.
    fn know(&self, count: usize) -> Vec<String> {
        let dir = self.scratch.path("signatures");
        let digits = (0..count).map(|number| format!("{number:064x}"));
        digits
            .map(|digits| {
                std::fs::write(dir.join(format!("sha256-{digits}.json")), "").unwrap();
                format!("sha256:{digits}")
            })
            .collect()
    }

    /// What every image needs from now on, or none.
    fn demand(&self, needs_signature: bool) {
        let requirement = if needs_signature {
            json!({ "type": "sigstoreSigned", "keyPath": self.signer.public_key() })
        } else {
            json!({ "type": "insecureAcceptAnything" })
        };
        let policy = json!({ "default": [requirement] });
        std::fs::write(self.scratch.path("policy.json"), policy.to_string()).unwrap();
    }

    /// An image that the engine brings by the digest of its manifest.
    async fn push(&self, mark: &str) -> (BuiltImage, String) {
        let image = ImageBuilder::busybox().marked(mark).build();
        let name = self.registry.push(&image, &format!("{mark}:1")).await;
        self.brings(&name, &image);
        (image, name)
    }

    fn brings(&self, name: &str, image: &BuiltImage) {
        let by_digest = format!("{}@{}", repository(name), image.digest());
        self.engine.brings(&by_digest, image.id());
    }

    async fn status(&self, name: &str) -> Option<String> {
        let request = ImageStatusRequest {
            image: Some(spec(name)),
            ..ImageStatusRequest::default()
        };
        let status = self.shim.image_status(Request::new(request)).await;
        Some(status.unwrap().into_inner().image?.id)
    }

    async fn remove(&self, name: &str) {
        let request = RemoveImageRequest {
            image: Some(spec(name)),
        };
        let removed = self.shim.remove_image(Request::new(request)).await;
        removed.expect("remove it");
    }

    async fn pull(&self, name: &str) -> Result<String, Status> {
        let request = PullImageRequest {
            image: Some(spec(name)),
            ..PullImageRequest::default()
        };
        let pulled = self.shim.pull_image(Request::new(request)).await?;
        Ok(pulled.into_inner().image_ref)
    }

    /// Makes a container, and tells what it was to be.
    async fn create(&self, config: ContainerConfig) -> Result<Value, Status> {
        let metadata = PodSandboxMetadata {
            name: "pod".into(),
            namespace: "default".into(),
            uid: "uid".into(),
            attempt: 0,
        };
        let request = CreateContainerRequest {
            pod_sandbox_id: PRETENDED_SANDBOX.into(),
            config: Some(ContainerConfig {
                metadata: Some(ContainerMetadata {
                    name: "main".into(),
                    attempt: 0,
                }),
                ..config
            }),
            sandbox_config: Some(PodSandboxConfig {
                metadata: Some(metadata),
                ..PodSandboxConfig::default()
            }),
        };
        self.shim.create_container(Request::new(request)).await?;
        Ok(self.engine.created().pop().expect("a container"))
    }
}

fn spec(image: &str) -> ImageSpec {
    ImageSpec {
        image: image.to_owned(),
        ..ImageSpec::default()
    }
}

/// A container of an image, which mounts another if one is named.
fn container(image: &str, mounted: Option<&str>) -> ContainerConfig {
    let mount = mounted.map(|mounted| Mount {
        container_path: "/data".into(),
        readonly: true,
        image: Some(spec(mounted)),
        ..Mount::default()
    });
    ContainerConfig {
        image: Some(spec(image)),
        mounts: mount.into_iter().collect(),
        ..ContainerConfig::default()
    }
}

fn config(scratch: &Scratch, endpoint: &Path) -> Config {
    let mut images = Images::new(scratch.path("signatures"));
    images.policies.node = Some(scratch.path("policy.json"));
    images.registry_dirs = vec![scratch.path("certs.d")];
    images.retry_pause = Duration::from_millis(10);
    Config {
        endpoint: endpoint.to_owned(),
        root: scratch.path("shim"),
        pause_image: None,
        policies: Some(images),
        credential_files: Vec::new(),
        pull_progress_deadline: Duration::from_secs(10),
        request_timeout: Duration::from_secs(10),
        runtime_cgroup: None,
        cgroup_driver: None,
        plugin: NetworkPlugin::None,
        hairpin: Hairpin::None,
        dual_stack: false,
        network: Network::new(scratch.path("network")),
        streaming: Streaming {
            listen: ([127, 0, 0, 1], 0).into(),
            tls: None,
            idle_timeout: Duration::from_secs(10),
        },
        containers: Containers {
            max_log_line: 16 << 10,
            exec_output_limit: 1 << 20,
            exec_output_memory: 16 << 20,
            message_limit: 16 << 20,
            pids_limit: None,
            ulimits: Vec::new(),
            sysctls: BTreeMap::new(),
            seccomp_when_unset: false,
        },
    }
}

/// Has us ask for a registry's images elsewhere.
fn ask_at(certs: &Path, registry: &str, at: &str) {
    let dir = certs.join(registry);
    std::fs::create_dir_all(&dir).unwrap();
    let text = format!("server = \"http://{at}\"\n");
    std::fs::write(dir.join("hosts.toml"), text).unwrap();
}

fn repository(name: &str) -> &str {
    name.strip_suffix(":1").unwrap()
}

#[tokio::test]
async fn of_an_index_that_is_signed_containerds_store_may_take_what_it_wants() {
    let scene = scene!(true);
    let (image, name, own) = scene.push_index("whole").await;
    scene.sign(image.digest(), &name).await;
    let by_digest = format!("{}@{}", repository(&name), image.digest());
    scene.engine.brings(&by_digest, image.digest());
    assert_eq!(scene.pull(&name).await.unwrap(), image.digest());
    assert!(scene.engine.pulled().iter().eq([&by_digest]));
    let names = scene.engine.names(image.digest());
    assert_eq!(names, [name.clone(), by_digest]);
    let created = scene.create(container(&name, None)).await.unwrap();
    assert_eq!(created["Image"], image.digest());
    // It says nothing of the manifest alone, which is another image there.
    let of_manifest = format!("{}@{own}", repository(&name));
    scene.engine.brings("free.example/it:1", &own);
    let free = scene.pull("free.example/it:1").await;
    assert_eq!(free.unwrap(), own, "nobody needs its signatures");
    let refused = scene.create(container(&of_manifest, None)).await;
    assert_eq!(refused.unwrap_err().code(), Code::NotFound);
    let mut by_id = container(&own, None);
    by_id.image.as_mut().unwrap().user_specified_image = name;
    let refused = scene.create(by_id).await.unwrap_err();
    let message = refused.message();
    assert!(
        message.starts_with("SignatureValidationFailed: "),
        "{message}"
    );
    scene.shim.stop().await;
}

#[tokio::test]
async fn of_an_index_that_is_not_signed_containerds_store_gets_the_manifest_that_is() {
    let scene = scene!(true);
    let (image, name, own) = scene.push_index("part").await;
    scene.sign(&own, &name).await;
    let of_index = format!("{}@{}", repository(&name), image.digest());
    let of_manifest = format!("{}@{own}", repository(&name));
    scene.engine.brings(&of_index, image.digest());
    scene.engine.brings(&of_manifest, &own);
    assert_eq!(scene.pull(&name).await.unwrap(), own);
    assert_eq!(scene.engine.pulled(), [of_manifest]);
    let created = scene.create(container(&name, None)).await.unwrap();
    assert_eq!(created["Image"], own.as_str());
    scene.shim.stop().await;
}

#[tokio::test]
async fn what_an_engine_has_chosen_of_an_index_is_used_only_if_it_was_judged() {
    let scene = scene!(false);
    let (image, name, own) = scene.push_index("choice").await;
    scene.sign(image.digest(), &name).await;
    let other = format!("sha256:{:064x}", 7);
    let of_index = format!("{}@{}", repository(&name), image.digest());
    let of_manifest = format!("{}@{own}", repository(&name));
    scene.engine.brings(&of_index, &other);
    scene.engine.brings(&of_manifest, &other);
    let refused = scene.pull(&name).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let words = format!(
        "made the image {other} of it, and {} was judged",
        image.id()
    );
    assert!(refused.message().contains(&words), "{refused}");
    assert_eq!(scene.engine.names(&other), [""; 0], "it is gone again");
    assert_eq!(
        scene.known(),
        [""; 0],
        "nothing is known of what has not come"
    );
    scene.engine.brings(&of_manifest, image.id());
    assert_eq!(scene.pull(&name).await.unwrap(), image.id());
    let names = scene.engine.names(image.id());
    assert_eq!(names, [name.clone(), of_manifest.clone()]);
    let wanted = [&of_index, &of_manifest, &of_index, &of_manifest];
    assert!(scene.engine.pulled().iter().eq(wanted));
    scene.shim.stop().await;
}

#[tokio::test]
async fn images_that_are_mounted_are_judged_as_well() {
    let scene = scene!(false);
    let mut names = Vec::new();
    for mark in ["main", "model"] {
        let image = ImageBuilder::busybox().marked(mark).build();
        let name = scene.registry.push(&image, &format!("{mark}:1")).await;
        scene.sign(image.digest(), &name).await;
        let by_digest = format!("{}@{}", repository(&name), image.digest());
        scene.engine.brings(&by_digest, image.id());
        assert_eq!(scene.pull(&name).await.unwrap(), image.id());
        names.push((name, image));
    }
    let [(main, _), (model, image)] = &names[..] else {
        unreachable!()
    };
    let made = scene.create(container(main, Some(model))).await.unwrap();
    let mount = &made["HostConfig"]["Mounts"][0];
    assert_eq!(mount["Source"], image.id(), "{made}");
    scene.remove(model).await;
    // It comes back by other ways.
    scene.engine.brings("free.example/model:1", image.id());
    scene.pull("free.example/model:1").await.expect("pull it");
    let count = scene.engine.created().len();
    for mounted in ["free.example/model:1", image.id()] {
        let free = scene.create(container(main, Some(mounted))).await;
        free.expect("its name is free");
    }
    scene.demand(true);
    let refused = scene.create(container(main, Some(image.id()))).await;
    let refused = refused.unwrap_err();
    assert!(
        refused.message().starts_with("SignatureValidationFailed: ")
            && refused.message().contains("pull it over CRI"),
        "{refused}"
    );
    assert_eq!(scene.engine.created().len(), count + 2);
    scene.shim.stop().await;
}

#[tokio::test]
async fn what_we_cannot_reach_is_pulled_as_it_is_called_only_if_no_signature_matters() {
    let scene = scene!(false);
    let nobody = FaultProxy::alone();
    for host in ["free.example", &scene.registry.host()] {
        ask_at(&scene.scratch.path("certs.d"), host, &nobody.host());
    }
    let image = ImageBuilder::busybox().marked("far").build();
    let name = scene.registry.push(&image, "far:1").await;
    scene.engine.brings(&name, image.id());
    scene.engine.brings("free.example/far:1", image.id());
    let missing = scene.pull(&name).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound, "{missing}");
    assert_eq!(scene.engine.pulled(), [""; 0]);
    let id = scene.pull("free.example/far:1").await.expect("pull it");
    assert_eq!(id, image.id());
    assert_eq!(scene.engine.pulled(), ["free.example/far:1"]);
    assert!(nobody.seen().len() >= 2, "it was asked");
    scene.shim.stop().await;
}

#[tokio::test]
async fn images_that_never_came_leave_the_room_to_others() {
    let scene = scene!(false);
    for number in 0..3 {
        let image = ImageBuilder::busybox().marked(&number.to_string()).build();
        let path = format!("never-{number}:1");
        let name = scene.registry.push(&image, &path).await;
        scene.sign(image.digest(), &name).await;
        scene.pull(&name).await.expect_err("the engine fails");
        assert_eq!(scene.known(), [""; 0]);
    }
    // What calls that were given up have left.
    scene.know(4096);
    let (image, name) = scene.push("room").await;
    scene.sign(image.digest(), &name).await;
    assert_eq!(scene.pull(&name).await.expect("room"), image.id());
    assert_eq!(scene.known(), [image.id()]);
    for id in scene.know(4096) {
        scene.engine.has(&format!("a.example/{}", &id[7..]), &id);
    }
    let again = scene.pull(&name).await;
    assert_eq!(again.expect("it has its room"), image.id());
    let (other, name) = scene.push("other").await;
    scene.sign(other.digest(), &name).await;
    let full = scene.pull(&name).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted, "{full}");
    scene.shim.stop().await;
}

#[tokio::test]
async fn who_pulls_the_same_image_from_elsewhere_pushes_no_signature_out() {
    let scene = scene!(false);
    scene.demand(false);
    let (image, own) = scene.push("own").await;
    scene.sign(image.digest(), &own).await;
    scene.pull(&own).await.expect("pull it");
    for number in 0..20 {
        let path = format!("other-{number}:1");
        let other = scene.registry.push(&image, &path).await;
        scene.brings(&other, &image);
        scene.pull(&other).await.expect("pull it");
        scene.engine.untag(&other);
        let by_digest = format!("{}@{}", repository(&other), image.digest());
        scene.engine.untag(&by_digest);
    }
    scene.demand(true);
    let created = scene.create(container(&own, None)).await;
    created.expect("its signature is known");
    scene.shim.stop().await;
}

#[tokio::test]
async fn pulls_at_once_of_one_image_by_many_names_all_succeed() {
    let scene = scene!(false);
    let (image, own) = scene.push("own").await;
    let mut names = vec![own];
    for number in 1..8 {
        let name = scene
            .registry
            .push(&image, &format!("own-{number}:1"))
            .await;
        scene.brings(&name, &image);
        names.push(name);
    }
    for name in &names {
        scene.sign(image.digest(), name).await;
    }
    let pulls = names.iter().map(|name| scene.pull(name));
    for pulled in futures_util::future::join_all(pulls).await {
        assert_eq!(pulled.expect("pull"), image.id());
    }
    for name in &names {
        let created = scene.create(container(name, None)).await;
        created.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    scene.shim.stop().await;
}

#[tokio::test]
async fn a_short_name_is_never_docker_hubs_where_a_file_says_what_it_is() {
    skip_unless!(machine::has_program("docker-registry"));
    skip_unless!(machine::has_program("openssl"));
    let scene = Box::pin(Scene::with(false, |config, registry| {
        let path = config.root.with_file_name("registries.conf");
        let host = registry.host();
        let text = format!("unqualified-search-registries = [\"{host}\"]\n");
        std::fs::write(&path, text).unwrap();
        let images = config.policies.as_mut().unwrap();
        images.registries = RegistriesFile::at(path);
    }))
    .await;
    let (image, name) = scene.push("short").await;
    scene.sign(image.digest(), &name).await;
    let id = scene.pull("short:1").await.expect("pull by a short name");
    assert_eq!(id, image.id());
    let by_digest = format!("{}@{}", repository(&name), image.digest());
    assert_eq!(scene.engine.names(&id), [name.clone(), by_digest]);
    for known in ["short:1", &name, &id, &id[7..20]] {
        assert_eq!(scene.status(known).await.as_deref(), Some(&*id), "{known}");
    }
    let of_hub = "docker.io/library/short:1";
    assert_eq!(scene.status(of_hub).await, None);
    // Somebody has another in the engine that is called so.
    let foreign = format!("sha256:{:064x}", 7);
    scene.engine.has(of_hub, &foreign);
    assert_eq!(scene.status("short:1").await.as_deref(), Some(&*id));
    let (main, main_name) = scene.push("main").await;
    scene.sign(main.digest(), &main_name).await;
    scene.pull("main:1").await.expect("pull by a short name");
    let made = scene.create(container("main:1", Some("short:1"))).await;
    let made = made.expect("create");
    assert_eq!(made["Image"], main.id());
    assert_eq!(made["HostConfig"]["Mounts"][0]["Source"], image.id());
    let refused = scene.create(container(of_hub, None)).await;
    refused.expect_err("nobody speaks for it");
    scene.remove("short:1").await;
    assert_eq!(scene.status("short:1").await, None);
    assert_eq!(scene.engine.names(&foreign), ["short:1"]);
    scene.shim.stop().await;
}
