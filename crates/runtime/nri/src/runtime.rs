//! Interface of the runtime for plugins.

use crate::v1alpha1::{Container, ContainerEviction, ContainerUpdate, PodSandbox};

pub use futures_util::future::BoxFuture;

/// Runtime operations that NRI needs.
pub trait Runtime: Send + Sync + 'static {
    /// Returns all pods, and the containers that have not ended.
    fn snapshot(&self) -> BoxFuture<'_, (Vec<PodSandbox>, Vec<Container>)>;

    /// Applies the updates that a plugin requests. Returns the updates that failed although the plugin did not set
    /// `ignore_failure`. Ignores missing containers.
    fn update(
        &self,
        plugin: String,
        updates: Vec<ContainerUpdate>,
    ) -> BoxFuture<'_, Vec<ContainerUpdate>>;

    /// Stops the containers that a plugin evicts.
    fn evict(&self, plugin: String, evictions: Vec<ContainerEviction>) -> BoxFuture<'_, ()>;
}
