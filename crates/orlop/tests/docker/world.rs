//! An engine with a busybox image, and a daemon on it.

use std::path::Path;
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{RuntimeCondition, StatusRequest};
use orlop_testkit::{ContainerSpec, Cri, DockerEngine, ImageBuilder, Node, PodSpec};

/// Begins a test: skips it where no engine can run, else gives a [`World`].
macro_rules! world {
    () => {{ $crate::world::world!(orlop_testkit::DockerEngine::start()) }};
    ($engine:expr) => {{
        orlop_testkit::skip_unless!(orlop_testkit::docker::can_run());
        $crate::world::World::on($engine).await
    }};
    ($engine:expr, $config:expr) => {{
        orlop_testkit::skip_unless!(orlop_testkit::docker::can_run());
        let engine = $engine;
        let socket = engine.socket();
        $crate::world::World::with(engine, &socket, $config).await
    }};
}
pub(crate) use world;

/// The name of the busybox image.
pub(crate) const BUSYBOX: &str = "testkit.invalid/busybox:1";

pub(crate) struct World {
    pub(crate) cri: Cri,
    pub(crate) node: Node,
    // Last: the daemon goes before the engine.
    pub(crate) engine: DockerEngine,
}

impl World {
    pub(crate) async fn on(engine: DockerEngine) -> Self {
        let socket = engine.socket();
        Self::with(engine, &socket, "").await
    }

    /// One with more of the configuration: keys of its table `[docker]`, then other tables.
    pub(crate) async fn with(engine: DockerEngine, endpoint: &Path, more: &str) -> Self {
        engine.load(&ImageBuilder::busybox().build(), BUSYBOX);
        // Beside the engine's socket, whose directory ends with the test.
        let root = engine.socket().with_file_name("shim");
        let config = format!(
            "backend = \"docker\"\n[docker]\nendpoint = \"{}\"\nroot = \"{}\"\n{more}\n",
            endpoint.display(),
            root.display()
        );
        let node = Node::orlop().config(&config).start().await;
        let world = Self {
            cri: node.cri().await,
            node,
            engine,
        };
        world.wait_ready(true).await;
        world
    }

    /// The directory of sandbox checkpoints.
    pub(crate) fn checkpoints(&self) -> std::path::PathBuf {
        self.engine.socket().with_file_name("shim").join("sandbox")
    }

    #[expect(clippy::unused_self, reason = "the world is where the image is")]
    pub(crate) fn container(&self, name: &str) -> ContainerSpec {
        ContainerSpec::new(name, BUSYBOX)
    }

    /// Runs a pod with one container that runs a script; its log is `main.log`.
    pub(crate) async fn run_script(&self, name: &str, script: &str) -> (PodSpec, String, String) {
        let pod = self.node.pod(name);
        let pod_id = Box::pin(self.cri.run_pod(&pod)).await.expect("run a pod");
        let spec = self.container("main").shell(script);
        let id = Box::pin(self.cri.run(&pod_id, &pod, &spec))
            .await
            .expect("run a container");
        (pod, pod_id, id)
    }

    /// Kills the daemon and starts it again.
    pub(crate) async fn crash(&mut self) {
        self.node.kill9();
        self.start_again().await;
    }

    /// Ends the daemon and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.node.stop();
        self.start_again().await;
    }

    /// Starts the daemon, and connects to it.
    pub(crate) async fn start_again(&mut self) {
        self.node.start_again().await;
        self.cri = self.node.cri().await;
    }

    /// What the engine says of a container.
    pub(crate) fn inspect(&self, id: &str, template: &str) -> String {
        self.engine.docker(&["inspect", "--format", template, id])
    }

    pub(crate) async fn runtime_ready(&self) -> RuntimeCondition {
        let status = self.cri.runtime().status(StatusRequest::default()).await;
        let conditions = status
            .expect("a status")
            .into_inner()
            .status
            .unwrap()
            .conditions;
        let ready = conditions
            .into_iter()
            .find(|one| one.r#type == "RuntimeReady");
        ready.expect("a condition RuntimeReady")
    }

    /// Waits until the daemon says that it is, or is not, ready.
    pub(crate) async fn wait_ready(&self, wanted: bool) -> RuntimeCondition {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let now = self.runtime_ready().await;
            if now.status == wanted {
                return now;
            }
            assert!(
                Instant::now() < deadline,
                "still {now:?}; {}",
                self.node.log()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Waits until `ready` holds.
pub(crate) async fn eventually(what: &str, mut ready: impl FnMut() -> bool) {
    orlop_testkit::wait_until!(Duration::from_secs(30), ready(), "never {what}");
}
