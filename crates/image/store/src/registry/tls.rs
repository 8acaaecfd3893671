//! TLS settings of a host.

use std::path::PathBuf;

/// TLS settings of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tls {
    /// Certificate authorities beside the system's.
    pub(super) authorities: Vec<PathBuf>,
    /// Certificates to show, with their keys if those are in files of their own.
    pub(super) client: Vec<(PathBuf, Option<PathBuf>)>,
    pub(super) skip_verify: bool,
}

impl Tls {
    /// The authorities' files and the client's.
    pub(super) fn files(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let pairs = self.client.iter().cloned();
        let client = pairs
            .flat_map(|(certificate, key)| [Some(certificate), key])
            .flatten();
        (self.authorities.clone(), client.collect())
    }
}
