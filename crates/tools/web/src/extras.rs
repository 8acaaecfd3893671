//! What the process knows beside the endpoint.

use serde_json::Value;

/// What only the process that serves the page can tell: a client of an endpoint has none of it.
pub trait Extras: Send + Sync {
    /// The daemon's configuration in force, as TOML.
    fn settings(&self) -> Option<String> {
        None
    }

    /// Manifests, the mistakes in them, and what the probes of their pods found: the objects of
    /// `/api/manifests`.
    fn manifests(&self) -> Option<Value> {
        None
    }

    /// Whether manifests are known at all.
    fn has_manifests(&self) -> bool {
        false
    }
}
