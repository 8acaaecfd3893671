//! The settings that admission depends on.

use std::path::PathBuf;

use crate::{KeyFiles, PolicyFiles, registry};

/// Settings of what may be pulled and used.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// How registries are asked.
    pub(crate) registry: registry::Settings,
    /// Which images may be used.
    pub(crate) policies: PolicyFiles,
    /// A directory with files that say where signatures are beside registries.
    pub(crate) signature_stores: Option<PathBuf>,
    /// What opens encrypted layers.
    pub(crate) keys: KeyFiles,
}
