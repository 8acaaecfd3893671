//! A daemon with signature policies over an engine, and a registry with images that are signed or not.

use std::path::PathBuf;

use orlop_testkit::docker::EngineTap;
use orlop_testkit::policy::{self, by_id};
use orlop_testkit::{
    BuiltImage, DockerEngine, ImageBuilder, KeyKind, PodSpec, Registry, Scratch, Signer,
};
use serde_json::Value;
use tonic::Status;

use crate::world::World;

/// A daemon with a policy for itself and a directory for those of namespaces, and a registry.
pub(crate) struct Guarded {
    pub(crate) world: World,
    pub(crate) tap: EngineTap,
    pub(crate) registry: Registry,
    pub(crate) signer: Signer,
    pub(crate) scratch: Scratch,
}

macro_rules! guarded {
    () => {
        guarded!(orlop_testkit::Registry::start, |_| {
            $crate::guarded::Settings::default()
        })
    };
    ($registry:expr, $settings:expr) => {{
        orlop_testkit::skip_unless!(orlop_testkit::docker::can_run());
        orlop_testkit::skip_unless!(orlop_testkit::machine::has_program("docker-registry"));
        Box::pin($crate::guarded::Guarded::with($registry(), $settings)).await
    }};
}

pub(crate) use guarded;

/// More of the daemon's configuration.
#[derive(Default)]
pub(crate) struct Settings {
    /// Keys of the table `[docker]`.
    pub(crate) docker: String,
    /// Keys of the table `[images]`.
    pub(crate) images: String,
}

impl Guarded {
    /// Any image may be used at first.
    pub(crate) async fn with(
        registry: Registry,
        settings: impl FnOnce((&Registry, &Scratch)) -> Settings,
    ) -> Self {
        let scratch = Scratch::new();
        let policies = policy::settings(&scratch);
        let Settings { docker, images } = settings((&registry, &scratch));
        let config = format!("{docker}\n[images]\n{policies}{images}");
        let engine = DockerEngine::start();
        let tap = EngineTap::on(&engine.socket());
        let world = World::with(engine, tap.socket(), &config).await;
        Self {
            signer: Signer::new(&scratch.subdir("keys"), "team", KeyKind::P256),
            world,
            tap,
            registry,
            scratch,
        }
    }

    pub(crate) fn set(&self, file: &str, text: &str) {
        std::fs::write(self.scratch.path(file), text).unwrap();
    }

    /// The node's policy: nothing but what is signed by our key, from the registry with this name.
    pub(crate) fn demand(&self, host: &str, identity: &str) {
        self.set("policy.json", &self.demanding(host, identity).to_string());
    }

    pub(crate) fn demanding(&self, host: &str, identity: &str) -> Value {
        policy::demanding(&self.signer, host, identity)
    }

    /// Pushes an image that runs a shell; returns its name.
    pub(crate) async fn push(&self, mark: &str) -> (BuiltImage, String) {
        let image = ImageBuilder::busybox().marked(mark).build();
        let name = self.registry.push(&image, &format!("{mark}:1")).await;
        (image, name)
    }

    /// Signs what has this digest for a name; the signature is put into the repository of that path.
    pub(crate) async fn sign(&self, digest: &str, name: &str) {
        policy::sign(&self.signer, &self.registry, digest, name).await;
    }

    /// The id that an image gets that is pulled by this digest.
    pub(crate) fn id_of(&self, image: &BuiltImage, digest: &str) -> String {
        let info = ["info", "--format", "{{json .DriverStatus}}"];
        let info = self.world.engine.docker(&info);
        let is_of_containerd = info.contains("io.containerd.snapshotter.v1");
        if is_of_containerd { digest } else { image.id() }.to_owned()
    }

    /// What the engine was asked to pull since the last time.
    pub(crate) fn pulled(&self) -> Vec<String> {
        let asked = self.tap.take().into_iter();
        asked.filter(|it| it.contains("/images/create")).collect()
    }

    pub(crate) async fn pod(&self, name: &str, namespace: &str) -> (PodSpec, String) {
        let namespace = namespace.to_owned();
        let pod = self.world.node.pod(name).with(move |config| {
            config.metadata.get_or_insert_default().namespace = namespace;
        });
        let pod_id = self.world.cri.run_pod(&pod).await.expect("run a pod");
        (pod, pod_id)
    }

    /// Makes a container as kubelets do: by the image's id, with the name beside it.
    pub(crate) async fn create(
        &self,
        (pod, pod_id): &(PodSpec, String),
        container: &str,
        id: &str,
        name: &str,
    ) -> Result<String, Status> {
        let spec = by_id(container, id, name);
        Box::pin(self.world.cri.create(pod_id, pod, &spec)).await
    }

    pub(crate) async fn restart(&mut self) {
        self.world.restart().await;
        self.world.wait_ready(true).await;
    }

    /// Whether `orlop image policy` allows an image, and all that it prints.
    pub(crate) fn policy(&self, words: &[&str]) -> (bool, String) {
        self.world
            .node
            .client()
            .said(&[&["image", "policy"], words].concat())
    }

    /// The files of what is known of images.
    pub(crate) fn records(&self) -> Vec<PathBuf> {
        let dir = self.world.node.root().join("docker/signatures");
        let entries = std::fs::read_dir(dir).expect("list the records");
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}
