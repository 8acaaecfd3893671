//! The settings for requests to registries.

use std::path::PathBuf;
use std::time::Duration;

use super::keyring::NamespaceCredentials;
use crate::RegistriesFile;

/// Settings for requests to registries.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Directories with host settings, in containerd's `certs.d` layout.
    pub(crate) dirs: Vec<PathBuf>,
    /// Mirrors and short names of registries.
    pub(crate) registries: RegistriesFile,
    /// Files with the node's own credentials.
    pub(crate) credential_files: Vec<PathBuf>,
    /// The credentials of pod namespaces.
    pub(crate) namespace_credentials: NamespaceCredentials,
    /// Hosts that a registry may refer to even if their address is internal.
    pub(crate) internal_hosts: Vec<String>,
    /// Maximum number of connections to one registry, for all pulls together.
    pub(crate) max_connections: usize,
    /// A request that receives no byte for this long is retried.
    pub(crate) progress_timeout: Duration,
    /// Minimum average speed of a connection over that time, in bytes per second.
    pub(crate) min_speed: u64,
    /// Number of retries of a failed request.
    pub(crate) retries: u32,
    /// Pause before the first retry; it doubles with each retry.
    pub(crate) retry_pause: Duration,
    /// Maximum size of a manifest, index or configuration.
    pub(crate) manifest_bytes: u64,
}
