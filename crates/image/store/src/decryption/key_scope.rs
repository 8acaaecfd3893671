//! The namespace whose keys are tried.

/// Whose keys are tried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) enum KeysOf {
    /// Those for all pods.
    #[default]
    Node,
    /// These and those of a namespace.
    Namespace(String),
    /// All there are: for what gives nobody anything.
    Everybody,
}
