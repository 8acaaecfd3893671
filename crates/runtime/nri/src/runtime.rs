//! What the runtime does for plugins.

use crate::v1alpha1::{Container, ContainerEviction, ContainerUpdate, PodSandbox};

pub use futures_util::future::BoxFuture;

/// The runtime, as the interface sees it.
pub trait Runtime: Send + Sync + 'static {
    /// All pods, and the containers that have not ended.
    fn snapshot(&self) -> BoxFuture<'_, (Vec<PodSandbox>, Vec<Container>)>;

    /// Updates containers as a plugin asks, and gives back the updates that failed and should
    /// not have. Containers that are not there are passed over.
    fn update(
        &self,
        plugin: String,
        updates: Vec<ContainerUpdate>,
    ) -> BoxFuture<'_, Vec<ContainerUpdate>>;

    /// Ends containers as a plugin asks.
    fn evict(&self, plugin: String, evictions: Vec<ContainerEviction>) -> BoxFuture<'_, ()>;
}
