//! The state of the runtime and its features.

/// The CRI version that runtimes report.
pub(crate) const VERSION: &str = "0.1.0";

/// The state of the runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeState {
    /// The runtime's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Why it cannot run pods; `None` if it can.
    pub runtime_error: Option<String>,
    /// Why it cannot run pods with a network; `None` if it can.
    pub network_error: Option<String>,
    /// Its handlers by name. The default handler has an empty name; older runtimes report no
    /// handlers.
    pub handlers: Vec<Handler>,
}

/// A handler of the runtime, as a RuntimeClass names it, and its features.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handler {
    /// Its name; empty for the default handler.
    pub name: String,
    /// Supports recursive read-only mounts.
    pub recursive_read_only: bool,
    /// Supports pods with their own user namespace.
    pub user_namespaces: bool,
}
