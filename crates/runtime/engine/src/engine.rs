//! The handle of the native CRI service.

use std::fmt;
use std::sync::Arc;

use crate::node::Node;

/// The native runtime service. Cheap to clone; all clones share one node.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Node>);

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("root", &self.0.config().root)
            .finish_non_exhaustive()
    }
}
