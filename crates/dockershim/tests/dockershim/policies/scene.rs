//! What the tests need.

use std::path::Path;
use std::time::Duration;

use orlop_cri_api::v1::image_service_server::ImageService as _;
use orlop_cri_api::v1::runtime_service_server::RuntimeService as _;
use orlop_cri_api::v1::{
    ContainerConfig, ContainerMetadata, CreateContainerRequest, ImageSpec, ImageStatusRequest,
    Mount, PodSandboxConfig, PodSandboxMetadata, PullImageRequest, RemoveImageRequest,
};
use orlop_dockershim::Shim;
use orlop_dockershim::config::{Config, Images};
use orlop_testkit::docker::{PRETENDED_SANDBOX, PretendedEngine};
use orlop_testkit::image::Blob;
use orlop_testkit::{BuiltImage, ImageBuilder, KeyKind, Registry, Scratch, Signer};
use serde_json::{Value, json};
use tonic::{Request, Status};

use crate::config::config;

/// A shim over such an engine, and a registry with signed images.
pub(super) struct Scene {
    pub(super) shim: Shim,
    pub(super) engine: PretendedEngine,
    pub(super) registry: Registry,
    pub(super) signer: Signer,
    pub(super) scratch: Scratch,
}

impl Scene {
    pub(super) async fn new(has_containerd_images: bool) -> Self {
        Self::with(has_containerd_images, |_, _| {}).await
    }

    /// One whose images are asked about otherwise.
    pub(super) async fn with(
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
        let mut images = Images::new(scratch.path("signatures"));
        images.policies.node = Some(scratch.path("policy.json"));
        images.registry_dirs = vec![scratch.path("certs.d")];
        images.retry_pause = Duration::from_millis(10);
        config.policies = Some(images);
        change(&mut config, &registry);
        let shim = Shim::start(config, orlop_cri_server::timeline::Metrics::default());
        Self {
            shim: shim.await.expect("start"),
            engine,
            registry,
            signer,
            scratch,
        }
    }

    /// An index with images for several machines, of which ours is the second digest.
    pub(super) async fn push_index(&self, mark: &str) -> (BuiltImage, String, String) {
        let image = ImageBuilder::busybox().marked(mark).index().build();
        let name = self.registry.push(&image, &format!("{mark}:1")).await;
        let names_it = |it: &&Blob| String::from_utf8_lossy(&it.bytes).contains(image.id());
        let own = image.manifests.iter().find(names_it);
        let own = own.expect("one for this machine").digest.clone();
        (image, name, own)
    }

    pub(super) async fn sign(&self, digest: &str, name: &str) {
        let path = name.split_once('/').unwrap().1;
        let signature = self.signer.sign_image(digest, name);
        let repository = path.split(':').next().unwrap();
        let signatures = [signature];
        self.registry
            .push_signatures(repository, digest, &signatures)
            .await;
    }

    /// The images that something is known of.
    pub(super) fn known(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.scratch.path("signatures")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names
            .map(|name| name.trim_end_matches(".json").replacen('-', ":", 1))
            .collect()
    }

    /// Has something be known of that many images, and tells their ids.
    pub(super) fn know(&self, count: usize) -> Vec<String> {
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
    pub(super) fn demand(&self, needs_signature: bool) {
        let requirement = if needs_signature {
            json!({ "type": "sigstoreSigned", "keyPath": self.signer.public_key() })
        } else {
            json!({ "type": "insecureAcceptAnything" })
        };
        let policy = json!({ "default": [requirement] });
        std::fs::write(self.scratch.path("policy.json"), policy.to_string()).unwrap();
    }

    /// An image that the engine brings by the digest of its manifest.
    pub(super) async fn push(&self, mark: &str) -> (BuiltImage, String) {
        let image = ImageBuilder::busybox().marked(mark).build();
        let name = self.registry.push(&image, &format!("{mark}:1")).await;
        self.brings(&name, &image);
        (image, name)
    }

    pub(super) fn brings(&self, name: &str, image: &BuiltImage) {
        let by_digest = format!("{}@{}", repository(name), image.digest());
        self.engine.brings(&by_digest, image.id());
    }

    pub(super) async fn status(&self, name: &str) -> Option<String> {
        let request = ImageStatusRequest {
            image: Some(spec(name)),
            ..ImageStatusRequest::default()
        };
        let status = self.shim.image_status(Request::new(request)).await;
        Some(status.unwrap().into_inner().image?.id)
    }

    pub(super) async fn remove(&self, name: &str) {
        let request = RemoveImageRequest {
            image: Some(spec(name)),
        };
        let removed = self.shim.remove_image(Request::new(request)).await;
        removed.expect("remove it");
    }

    pub(super) async fn pull(&self, name: &str) -> Result<String, Status> {
        let request = PullImageRequest {
            image: Some(spec(name)),
            ..PullImageRequest::default()
        };
        let pulled = self.shim.pull_image(Request::new(request)).await?;
        Ok(pulled.into_inner().image_ref)
    }

    /// Makes a container, and tells what it was to be.
    pub(super) async fn create(&self, config: ContainerConfig) -> Result<Value, Status> {
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
pub(super) fn container(image: &str, mounted: Option<&str>) -> ContainerConfig {
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

/// Has us ask for a registry's images elsewhere.
pub(super) fn ask_at(certs: &Path, registry: &str, at: &str) {
    let dir = certs.join(registry);
    std::fs::create_dir_all(&dir).unwrap();
    let text = format!("server = \"http://{at}\"\n");
    std::fs::write(dir.join("hosts.toml"), text).unwrap();
}

pub(super) fn repository(name: &str) -> &str {
    name.strip_suffix(":1").unwrap()
}
