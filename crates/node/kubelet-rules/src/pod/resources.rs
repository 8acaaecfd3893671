//! Amounts by resource name.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Quantity;
use super::nullable::nullable;

/// Amounts by resource name: `cpu`, `memory`, `hugepages-2Mi`, …
pub type ResourceList = BTreeMap<String, Quantity>;

/// What a container needs (`requests`) and may use at most (`limits`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Resources {
    /// At most this much.
    #[serde(default, deserialize_with = "nullable")]
    pub limits: ResourceList,
    /// At least this much.
    #[serde(default, deserialize_with = "nullable")]
    pub requests: ResourceList,
}

impl Resources {
    /// The limit of a resource; `None` if there is none, or it is zero (which means the same).
    pub fn limit(&self, name: &str) -> Option<Quantity> {
        self.limits.get(name).copied().filter(|q| !q.is_zero())
    }

    /// The request of a resource, for which a limit stands in when the request is missing.
    pub fn request(&self, name: &str) -> Option<Quantity> {
        self.requests
            .get(name)
            .or_else(|| self.limits.get(name))
            .copied()
            .filter(|q| !q.is_zero())
    }
}
