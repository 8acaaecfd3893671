//! What is known where a specification is changed.

use orlop_oci_types::Features;

use crate::spec::input::{HostFacts, Policy};

/// What is known beside the specification.
#[derive(Debug, Clone, Copy)]
pub struct AdjustFacts<'a> {
    /// The node.
    pub host: &'a HostFacts,
    /// The node's configuration.
    pub policy: &'a Policy,
    /// What the container's runtime can do.
    pub features: &'a Features,
}

/// The path of a field in messages.
pub fn field(name: &str) -> String {
    format!("NRI adjustment: {name}")
}
