//! Amounts by resource name.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Quantity;
use super::nullable::nullable;

/// Amounts by resource name: `cpu`, `memory`, `hugepages-2Mi`, …
pub type ResourceList = BTreeMap<String, Quantity>;

/// The resource requests and limits of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Resources {
    /// The most that the container may use.
    #[serde(default, deserialize_with = "nullable")]
    pub limits: ResourceList,
    /// The amounts that are reserved for the container.
    #[serde(default, deserialize_with = "nullable")]
    pub requests: ResourceList,
}

impl Resources {
    /// Returns the limit of a resource; `None` if it is missing or zero (no limit).
    pub fn limit(&self, name: &str) -> Option<Quantity> {
        self.limits.get(name).copied().filter(|q| !q.is_zero())
    }

    /// Returns the request of a resource, or its limit if the request is missing.
    pub fn request(&self, name: &str) -> Option<Quantity> {
        self.requests
            .get(name)
            .or_else(|| self.limits.get(name))
            .copied()
            .filter(|q| !q.is_zero())
    }
}
