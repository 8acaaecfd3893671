//! A node with an image, and the page of it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use orlop_testkit::{ContainerSpec, Cri, Node, NodeBuilder, PodSpec, Registry};

use crate::browser::Browser;

/// A running node with a pulled image.
pub(crate) struct World {
    pub(crate) cri: Cri,
    _registry: Registry,
    pub(crate) busybox: String,
    // Last: the daemon outlives its clients.
    pub(crate) node: Node,
}

impl World {
    pub(crate) async fn on(node: NodeBuilder) -> Self {
        let node = node.start().await;
        let cri = node.cri().await;
        let (registry, busybox) = Registry::with_busybox().await;
        cri.pull(&busybox).await.expect("pull busybox");
        Self {
            cri,
            _registry: registry,
            busybox,
            node,
        }
    }

    pub(crate) fn script(&self, script: &str) -> ContainerSpec {
        ContainerSpec::new("main", &self.busybox).shell(script)
    }

    /// Runs a pod of one container; gives both ids.
    pub(crate) async fn run(&self, pod: &PodSpec, spec: &ContainerSpec) -> (String, String) {
        let pod_id = self.cri.run_pod(pod).await.expect("run a pod");
        let id = self.cri.run(&pod_id, pod, spec).await;
        let id = id.expect("run a container");
        (pod_id, id)
    }

    /// `orlop web` on the node's socket.
    pub(crate) fn page(&self, flags: &[&str]) -> Page {
        Page::start(&self.node.socket(), flags)
    }

    pub(crate) async fn finish(self) {
        drop(self.cri);
        self.node.finish().await;
    }
}

/// A running `orlop web`.
pub(crate) struct Page {
    process: Child,
    address: String,
}

impl Page {
    pub(crate) fn start(socket: &Path, flags: &[&str]) -> Self {
        let mut process = Command::new(orlop_testkit::node::binary())
            .arg("web")
            .arg("-r")
            .arg(format!("unix://{}", socket.display()))
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .expect("run orlop web");
        let mut line = String::new();
        let out = process.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let address = line.trim().to_owned();
        assert!(address.starts_with("http://127.0.0.1:"), "{address}");
        Self { process, address }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// A browser that has opened the address.
    pub(crate) async fn browser(&self) -> Browser {
        Browser::open(&self.address).await
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
