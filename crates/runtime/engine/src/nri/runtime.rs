//! The engine as the runtime that NRI plugins talk to.

use std::sync::{Arc, Weak};

use futures_util::stream::{self, StreamExt as _};
use orlop_nri::v1alpha1::{Container, ContainerEviction, ContainerUpdate, PodSandbox};
use orlop_nri::{BoxFuture, Runtime};

use super::{hooks, view};
use crate::node::Node;
use crate::record::container::Phase;
use crate::record::pod;

/// Number of specifications that are read concurrently.
const SIDE_BY_SIDE: usize = 8;

/// Serves requests of plugins for as long as the engine exists.
#[derive(Debug)]
pub struct PluginRuntime(pub Weak<Node>);

impl Runtime for PluginRuntime {
    fn snapshot(&self) -> BoxFuture<'_, (Vec<PodSandbox>, Vec<Container>)> {
        Box::pin(async move {
            let Some(node) = self.0.upgrade() else {
                return Default::default();
            };
            let mut pods = node.pods.all();
            pods.retain(|one| matches!(one.phase(), pod::Phase::Ready | pod::Phase::NotReady));
            pods.sort_by_key(|one| one.created_at);
            let mut containers = node.containers.all();
            containers.retain(|one| matches!(one.phase(), Phase::Created | Phase::Running));
            containers.sort_by_key(|one| one.created_at);
            let pods = pods
                .iter()
                .map(|one| view::pod(&node.cgroups, &node.paths, one))
                .collect();
            let containers = stream::iter(containers)
                .map(|one| async move { view::container_with_spec(&one).await })
                .buffered(SIDE_BY_SIDE)
                .collect()
                .await;
            (pods, containers)
        })
    }

    fn update(
        &self,
        plugin: String,
        updates: Vec<ContainerUpdate>,
    ) -> BoxFuture<'_, Vec<ContainerUpdate>> {
        Box::pin(async move {
            let Some(node) = self.0.upgrade() else {
                return updates;
            };
            let own = Arc::clone(&node);
            let work = async move { hooks::apply_updates(&own, &plugin, updates).await };
            finish(&node, Box::pin(work)).await
        })
    }

    fn evict(&self, plugin: String, evictions: Vec<ContainerEviction>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(node) = self.0.upgrade() {
                finish(&node, {
                    let node = Arc::clone(&node);
                    async move { hooks::evict(&node, &plugin, evictions).await }
                })
                .await;
            }
        })
    }
}

/// Runs work to completion, even if the plugin disconnects meanwhile.
async fn finish<T>(node: &Node, work: impl Future<Output = T> + Send + 'static) -> T
where
    T: Default + Send + 'static,
{
    let done = node.finish(async move { Ok(work.await) }).await;
    done.unwrap_or_else(|error: Arc<_>| {
        tracing::error!(%error, "cannot complete the request of an NRI plugin");
        T::default()
    })
}
