//! A node with an image, and the page of it.

use orlop_testkit::node::WebServer;
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

/// Begins a test: skips it where no pod can run, else gives a [`World`].
macro_rules! world {
    () => {{
        orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
        $crate::world::World::on(orlop_testkit::Node::orlop()).await
    }};
}
pub(crate) use world;

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
    pub(crate) fn page(&self, flags: &[&str]) -> WebServer {
        WebServer::start(&self.node.socket(), flags)
    }

    pub(crate) async fn finish(self) {
        drop(self.cri);
        self.node.finish().await;
    }
}

/// A browser that has opened the address.
pub(crate) async fn visit(page: &WebServer) -> Browser {
    Browser::open(&page.address).await
}
