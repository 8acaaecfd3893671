//! The scope of the keys that may decrypt a layer.

/// The keys that may decrypt a layer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) enum KeysOf {
    /// The keys for all pods.
    #[default]
    Node,
    /// The keys for all pods and those of a namespace.
    Namespace(String),
    /// All keys, for operations that give nobody access to the content.
    Everybody,
}
