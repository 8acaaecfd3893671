//! Facts that adjustments of a specification depend on.

use orlop_oci_types::Features;

use crate::spec::input::{HostFacts, Policy};

/// Facts that adjustments depend on, in addition to the specification.
#[derive(Debug, Clone, Copy)]
pub struct AdjustFacts<'a> {
    /// The node.
    pub host: &'a HostFacts,
    /// The node's configuration.
    pub policy: &'a Policy,
    /// Features of the container's runtime.
    pub features: &'a Features,
}

/// Returns the path of a field for messages.
pub fn field(name: &str) -> String {
    format!("NRI adjustment: {name}")
}
