//! The settings for requests to registries.

use std::path::PathBuf;
use std::time::Duration;

use super::keyring::NamespaceCredentials;
use crate::RegistriesFile;

/// Settings of registries.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Directories with settings of hosts, in containerd's `certs.d` layout.
    pub(crate) dirs: Vec<PathBuf>,
    /// Where names lead, and what short ones stand for.
    pub(crate) registries: RegistriesFile,
    /// Files with the node's own credentials.
    pub(crate) credential_files: Vec<PathBuf>,
    /// The credentials of pod namespaces.
    pub(crate) namespace_credentials: NamespaceCredentials,
    /// Hosts that a registry may send us to whatever their address.
    pub(crate) internal_hosts: Vec<String>,
    /// Connections to one registry at the same time, over all pulls.
    pub(crate) max_connections: usize,
    /// What gets no byte for this long is given up and tried again.
    pub(crate) progress_timeout: Duration,
    /// Bytes per second that each connection must bring on average over that time.
    pub(crate) min_speed: u64,
    /// How often a failed request is tried again.
    pub(crate) retries: u32,
    /// The first pause between tries; it doubles with each.
    pub(crate) retry_pause: Duration,
    /// Bytes of one manifest, index or configuration.
    pub(crate) manifest_bytes: u64,
}
