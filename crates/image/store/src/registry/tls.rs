//! TLS settings of a host.

use std::path::PathBuf;

/// TLS settings of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tls {
    /// Certificate authorities in addition to the system's.
    pub(super) authorities: Vec<PathBuf>,
    /// Client certificates, with their keys if those are in separate files.
    pub(super) client: Vec<(PathBuf, Option<PathBuf>)>,
    pub(super) skip_verify: bool,
}

impl Tls {
    /// Returns the files of the authorities and of the client.
    pub(super) fn files(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let pairs = self.client.iter().cloned();
        let client = pairs
            .flat_map(|(certificate, key)| [Some(certificate), key])
            .flatten();
        (self.authorities.clone(), client.collect())
    }
}
