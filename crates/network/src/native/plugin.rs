//! The plugins that can run in process.

use serde_json::Value;

use super::call::Call;
use super::{bandwidth, bridge, firewall, loopback, masquerade, portmap, ptp, tuning};
use crate::cni::CniResult;
use crate::error::NativeError;

/// A standard plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NativePlugin {
    Bandwidth,
    Bridge,
    Firewall,
    Loopback,
    Portmap,
    Ptp,
    Tuning,
}

impl NativePlugin {
    pub(crate) fn named(kind: &str) -> Option<Self> {
        match kind {
            "bandwidth" => Some(Self::Bandwidth),
            "bridge" => Some(Self::Bridge),
            "firewall" => Some(Self::Firewall),
            "loopback" => Some(Self::Loopback),
            "portmap" => Some(Self::Portmap),
            "ptp" => Some(Self::Ptp),
            "tuning" => Some(Self::Tuning),
            _ => None,
        }
    }

    /// Runs the plugin; only ADD returns a result.
    pub(crate) fn run(self, call: &Call<'_>) -> Result<Option<CniResult>, NativeError> {
        match self {
            Self::Bandwidth => bandwidth::run(call),
            Self::Bridge => bridge::run(call),
            Self::Firewall => firewall::run(call),
            Self::Loopback => loopback::run(call),
            Self::Portmap => portmap::run(call),
            Self::Ptp => ptp::run(call),
            Self::Tuning => tuning::run(call),
        }
    }
}

/// Reports whether a pod was attached in process in a form that the plugin's program cannot undo. Such a pod is also
/// detached in process, even if the network now uses programs.
pub(crate) fn did_what_programs_cannot_undo(kind: &str, call: &Call<'_>) -> bool {
    let masquerades = call.conf.get("ipMasq") == Some(&Value::Bool(true));
    match NativePlugin::named(kind) {
        Some(NativePlugin::Bridge | NativePlugin::Ptp) if masquerades => {
            masquerade::is_by_sets(call)
        }
        Some(NativePlugin::Firewall) => firewall::is_noted(call),
        Some(NativePlugin::Portmap) => portmap::is_by_maps(call),
        _ => false,
    }
}
