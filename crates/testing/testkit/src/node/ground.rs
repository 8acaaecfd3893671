//! Scratch directory of a test that starts a node itself.

use std::ops::Deref;

use crate::node::{network, teardown};
use crate::scratch::Scratch;

/// A scratch directory. Dropping it removes all processes, mounts, cgroups and interfaces that carry its name.
#[derive(Debug)]
pub struct Ground(Scratch);

impl Ground {
    /// Creates a scratch directory with a CNI network configuration in `cni`.
    pub fn new() -> Self {
        teardown::sweep_abandoned();
        let scratch = Scratch::new();
        network::write_cni(&scratch);
        Self(scratch)
    }
}

impl Default for Ground {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for Ground {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.0
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        teardown::end_all(&self.0);
        teardown::remove_links(&self.0);
    }
}
