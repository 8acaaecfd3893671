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
    /// The pods that clients may see, in the order of their creation.
    pub fn chosen(&self, filter: Option<&PodSandboxFilter>) -> Vec<Arc<Pod>> {
        let mut pods = self.all();
        pods.retain(|pod| pod.visible() && pod_matches(pod, filter));
        pods.sort_by_key(|pod| std::cmp::Reverse(pod.created_at));
        pods
    }

    /// The runtime of the pod with this identity, if there is one.
    pub fn runtime_of(&self, named: &PodSandboxMetadata) -> String {
        let pods = self.all();
        let mut same = pods
            .iter()
            .filter(|pod| pod.visible() && pod.config.metadata.as_ref() == Some(named));
        same.next()
            .map_or_else(String::new, |pod| pod.runtime.clone())
    }

    /// When an attempt at this pod is created that is made now: after the others, as containers are.
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

    /// A pod that a client may ask about.
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
