//! Signature policies over engines that keep images otherwise than Debian's, or bring others than they are told to.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use orlop_cri::v1::image_service_server::ImageService as _;
use orlop_cri::v1::runtime_service_server::RuntimeService as _;
use orlop_cri::v1::{
    ContainerConfig, ContainerMetadata, CreateContainerRequest, ImageSpec, Mount, PodSandboxConfig,
    PodSandboxMetadata, PullImageRequest, RemoveImageRequest,
};
use orlop_dockershim::Shim;
use orlop_dockershim::config::{
    Config, Containers, Hairpin, Images, Network, NetworkPlugin, Streaming,
};
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
        let config = config(&scratch, engine.socket());
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
    let request = RemoveImageRequest {
        image: Some(spec(model)),
    };
    let removed = scene.shim.remove_image(Request::new(request)).await;
    removed.expect("remove it");
    // It comes back by other ways.
    scene.engine.brings("free.example/model:1", image.id());
    scene.pull("free.example/model:1").await.expect("pull it");
    let count = scene.engine.created().len();
    for mounted in ["free.example/model:1", image.id()] {
        let free = scene.create(container(main, Some(mounted))).await;
        free.expect("its name is free");
    }
    std::fs::write(
        scene.scratch.path("policy.json"),
        json!({
            "default": [{ "type": "sigstoreSigned", "keyPath": scene.signer.public_key() }],
        })
        .to_string(),
    )
    .unwrap();
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
