//! The settings that admission depends on.

use std::path::PathBuf;

use crate::{KeyFiles, PolicyFiles, registry};

/// Settings that decide which images may be pulled and used.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Settings for requests to registries.
    pub(crate) registry: registry::Settings,
    /// Policies that decide which images may be used.
    pub(crate) policies: PolicyFiles,
    /// Directory with files that configure signature stores.
    pub(crate) signature_stores: Option<PathBuf>,
    /// Keys for encrypted layers.
    pub(crate) keys: KeyFiles,
}
