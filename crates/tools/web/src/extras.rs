//! Data of the serving process that the endpoint does not provide.

use serde_json::Value;

/// Data that only the process that serves the page has.
pub trait Extras: Send + Sync {
    /// Returns the active configuration of the daemon as TOML.
    fn settings(&self) -> Option<String> {
        None
    }

    /// Returns manifests with their errors and the probe results of their pods: the objects of `/api/manifests`.
    fn manifests(&self) -> Option<Value> {
        None
    }

    /// Returns whether the process manages manifests.
    fn has_manifests(&self) -> bool {
        false
    }
}
