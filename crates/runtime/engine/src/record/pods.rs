//! The pods of the node.

use std::sync::Arc;

use orlop_cri_api::v1::{PodSandboxFilter, PodSandboxMetadata};

use crate::clock;
use crate::error::{Error, Result};
use crate::record::messages::pod_matches;
use crate::record::pod::Pod;
use crate::record::store::Store;

/// The pods.
pub type Pods = Store<Pod>;

impl Pods {
    /// Returns the pods that clients may see and the filter selects, newest first.
    pub fn chosen(&self, filter: Option<&PodSandboxFilter>) -> Vec<Arc<Pod>> {
        let mut pods = self.all();
        pods.retain(|pod| pod.visible() && pod_matches(pod, filter));
        pods.sort_by_key(|pod| std::cmp::Reverse(pod.created_at));
        pods
    }

    /// Returns the runtime of the pod with this identity; empty if there is none.
    pub fn runtime_of(&self, named: &PodSandboxMetadata) -> String {
        let pods = self.all();
        let mut same = pods
            .iter()
            .filter(|pod| pod.visible() && pod.config.metadata.as_ref() == Some(named));
        same.next()
            .map_or_else(String::new, |pod| pod.runtime.clone())
    }

    /// Returns the creation time of a new attempt at this pod, after all others, as for containers.
    pub fn creation_time(&self, named: &PodSandboxMetadata) -> i64 {
        let mut others = self.all();
        others.retain(|pod| {
            let other = pod.config.metadata.as_ref();
            other.is_some_and(|other| {
                (&other.name, &other.namespace, &other.uid)
                    == (&named.name, &named.namespace, &named.uid)
            })
        });
        clock::after(others.iter().map(|pod| pod.created_at).max())
    }

    /// Finds a pod that a client may ask about.
    pub fn visible(&self, id: &str) -> Result<Arc<Pod>> {
        let pod = self.find(id)?;
        if pod.visible() {
            return Ok(pod);
        }
        let id = id.to_owned();
        Err(Error::NotFound {
            what: "pod sandbox",
            id,
        }
        .into())
    }
}
