//! Summaries of the networks for administrators.

use super::shared::Inner;
use crate::plugins::Chain;

/// A network that new pods are attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkSummary {
    /// The network's name.
    pub name: String,
    /// The CNI version in which its plugins are called.
    pub cni_version: String,
    /// The types of its plugins.
    pub plugins: Vec<String>,
    /// Whether the plugins run in process.
    pub in_process: bool,
}

impl Inner {
    pub(super) fn describe(&self) -> Vec<NetworkSummary> {
        let networks = self
            .networks_of(&self.config().conf_dir)
            .unwrap_or_default();
        networks
            .iter()
            .map(|network| NetworkSummary {
                name: network.name.clone(),
                cni_version: network.cni_version.as_str().to_owned(),
                plugins: network.plugins.iter().map(|one| one.kind.clone()).collect(),
                in_process: Chain::new(network, &self.config())
                    .is_ok_and(|chain| chain.is_in_process()),
            })
            .collect()
    }
}
