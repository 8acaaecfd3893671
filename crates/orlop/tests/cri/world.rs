//! A node, a registry and a busybox image: what nearly every test begins with.

use std::time::{Duration, Instant};

use orlop_cri_api::v1::ContainerState;
use orlop_testkit::machine::patience;
use orlop_testkit::{BuiltImage, ContainerSpec, Cri, Node, NodeBuilder, PodSpec, Registry};

/// Begins a test of orlop alone, whatever node the environment asks for.
macro_rules! ours {
    () => {{ $crate::world::world!(orlop_testkit::Node::orlop()) }};
}
pub(crate) use ours;

/// Begins a test: skips it where no pod can run, else gives a [`World`].
///
/// Without an argument the test runs on any node.
macro_rules! world {
    () => {{ $crate::world::world!(orlop_testkit::Node::any()) }};
    ($node:expr) => {{
        orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
        $crate::world::World::on($node).await
    }};
}
pub(crate) use world;

/// A running node with a pulled image.
pub(crate) struct World {
    pub(crate) cri: Cri,
    pub(crate) registry: Registry,
    /// The reference of the pulled busybox image.
    pub(crate) busybox: String,
    // Last: the daemon outlives its clients.
    pub(crate) node: Node,
}

/// A pod with one running container.
pub(crate) struct Running {
    pub(crate) pod: PodSpec,
    pub(crate) pod_id: String,
    pub(crate) id: String,
}

impl World {
    /// Starts the node and the registry, and pulls busybox.
    pub(crate) async fn on(node: NodeBuilder) -> Self {
        let node = node.start().await;
        let cri = node.cri().await;
        let (registry, busybox) = Registry::with_busybox().await;
        cri.pull(&busybox).await.expect("pull busybox");
        Self {
            cri,
            registry,
            busybox,
            node,
        }
    }

    /// A container of the busybox image.
    pub(crate) fn container(&self, name: &str) -> ContainerSpec {
        ContainerSpec::new(name, &self.busybox)
    }

    /// Pushes and pulls an image of the test's own.
    pub(crate) async fn image(&self, image: &BuiltImage, name: &str) -> String {
        let reference = self.registry.push(image, name).await;
        let done = self.cri.pull(&reference).await;
        done.expect("pull the test's image");
        reference
    }

    /// Runs a pod.
    pub(crate) async fn run_pod(&self, pod: &PodSpec) -> String {
        self.cri.run_pod(pod).await.expect("run a pod")
    }

    /// Runs a pod with one container that runs a script; its log is `main.log`.
    pub(crate) async fn run_script(&self, name: &str, script: &str) -> Running {
        self.run_container(name, &self.container("main").shell(script))
            .await
    }

    /// Runs a pod with one container.
    pub(crate) async fn run_container(&self, name: &str, spec: &ContainerSpec) -> Running {
        let pod = self.node.pod(name);
        let pod_id = self.run_pod(&pod).await;
        let id = self.cri.run(&pod_id, &pod, spec).await;
        let id = id.expect("run a container");
        Running { pod, pod_id, id }
    }

    /// Runs a script to its end and returns its exit code and standard output.
    pub(crate) async fn output(&self, name: &str, spec: &ContainerSpec) -> (i32, String) {
        let running = self.run_container(name, spec).await;
        let status = self.cri.wait_exited(&running.id).await;
        (status.exit_code, running.stdout())
    }

    /// What a command in a container prints.
    pub(crate) async fn printed(&self, id: &str, words: &[&str]) -> String {
        let output = self.cri.exec(id, words).await.expect("exec");
        assert_eq!(output.exit_code, 0, "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// What `orlop doctor` says of the node.
    pub(crate) async fn doctor(&self) -> String {
        let config = self.node.scratch().path("config.toml");
        let output = tokio::process::Command::new(orlop_testkit::node::binary())
            .arg("doctor")
            .arg("--daemon-config")
            .arg(config)
            .arg("--socket")
            .arg(self.node.socket())
            .output()
            .await
            .expect("run orlop doctor");
        String::from_utf8_lossy(&output.stdout).into_owned()
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

    /// Ends the node and asserts that nothing was left behind.
    pub(crate) async fn finish(self) {
        drop(self.cri);
        self.node.finish().await;
    }
}

impl Running {
    /// What the container has written to its standard output.
    pub(crate) fn stdout(&self) -> String {
        self.stream("stdout")
    }

    /// What the container has written to one of its streams.
    pub(crate) fn stream(&self, name: &str) -> String {
        let mut text = Vec::new();
        for line in orlop_testkit::cri::read_log(&self.pod.logs().join("main.log")) {
            if line.stream == name {
                text.extend_from_slice(&line.content);
                if !line.partial {
                    text.push(b'\n');
                }
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// A container's cgroup in one hierarchy, found by its processes.
pub(crate) fn cgroup_of(world: &World, container: &str, controller: &str) -> std::path::PathBuf {
    let leaf = orlop_testkit::leaks::cgroups(world.node.id())
        .into_iter()
        .find(|path| {
            let of_container = path.to_string_lossy().contains(container);
            let mut parts = path
                .components()
                .filter_map(|part| part.as_os_str().to_str());
            of_container
                && (controller.is_empty()
                    || parts.any(|part| part.split(',').any(|it| it == controller)))
        });
    leaf.unwrap_or_else(|| panic!("no {controller} cgroup of {container}"))
}

/// What a container has printed once that is among it.
pub(crate) async fn until(world: &World, running: &Running, text: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(10) * patience();
    loop {
        let told = running.stdout();
        if told.contains(text) {
            return told;
        }
        let status = world.cri.status(&running.id).await.expect("status");
        assert_eq!(
            status.state(),
            ContainerState::ContainerRunning,
            "{} {told}",
            status.exit_code
        );
        assert!(Instant::now() < deadline, "{told}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
