//! The state of the runtime and its features.

/// The version of the interface, as runtimes tell it.
pub(crate) const VERSION: &str = "0.1.0";

/// How the runtime is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeState {
    /// The runtime's name and version.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What keeps it from running pods; `None` if it can.
    pub runtime_error: Option<String>,
    /// What keeps it from running pods with a network; `None` if it can.
    pub network_error: Option<String>,
    /// Its handlers, by name. The default one has no name; an older runtime tells of none.
    pub handlers: Vec<Handler>,
}

/// A handler of the runtime, as a RuntimeClass names it, and what it can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handler {
    /// Its name; empty for the default one.
    pub name: String,
    /// Make all of a mount's own mounts read-only.
    pub recursive_read_only: bool,
    /// Run pods with a user namespace of their own.
    pub user_namespaces: bool,
}
