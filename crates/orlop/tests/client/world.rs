//! A node with the image of its pods, and the client at it.

use orlop_testkit::node::Client;
use orlop_testkit::{Cri, Node, NodeBuilder, Registry};

pub(crate) struct World {
    pub(crate) cri: Cri,
    pub(crate) client: Client,
    pub(crate) registry: Registry,
    /// The name of the image, which runs a shell.
    pub(crate) image: String,
    pub(crate) node: Node,
}

impl World {
    pub(crate) async fn start(node: NodeBuilder) -> Self {
        let (registry, image) = Registry::with_busybox().await;
        let node = node.start().await;
        let cri = node.cri().await;
        cri.pull(&image).await.unwrap();
        Self {
            cri,
            client: node.client(),
            registry,
            image,
            node,
        }
    }

    pub(crate) async fn finish(self) {
        drop(self.cri);
        self.node.finish().await;
    }
}
