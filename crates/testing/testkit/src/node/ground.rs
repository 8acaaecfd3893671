//! Scratch for a test that starts a node by itself.

use std::ops::Deref;

use crate::node::{network, teardown};
use crate::scratch::Scratch;

/// A scratch; with it go the processes, mounts, cgroups and links that carry its name.
#[derive(Debug)]
pub struct Ground(Scratch);

impl Ground {
    /// Makes one, with a network of its own described in `cni`.
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
