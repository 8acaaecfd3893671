//! Which networks can be done in process.

use super::NativePlugin;
use crate::cni::{NetworkConf, SpecVersion};

/// The first plugin of a network that must be run as a program, and why.
pub(crate) fn first_unsuited(network: &NetworkConf) -> Option<(String, String)> {
    if network.cni_version < SpecVersion::V0_3_0 {
        let why = format!("CNI version {} knows no chains", network.cni_version);
        return Some((network.plugins.first()?.kind.clone(), why));
    }
    network.plugins.iter().find_map(|plugin| {
        let why = match NativePlugin::named(&plugin.kind) {
            None => "it is not a standard plugin".to_owned(),
            Some(_) => return None,
        };
        Some((plugin.kind.clone(), why))
    })
}
