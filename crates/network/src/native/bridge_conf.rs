//! The configuration of the `bridge` plugin.

use serde::Deserialize;

use super::bridge_vlan::VlanConf;
use super::call::Call;
use crate::error::NativeError;
use crate::mac::InvalidMac;
use crate::{InterfaceName, MacAddress};

/// The plugin's configuration.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BridgeConf {
    #[serde(default = "default_bridge")]
    pub(super) bridge: String,
    #[serde(default)]
    pub(super) is_gateway: bool,
    #[serde(default)]
    pub(super) is_default_gateway: bool,
    #[serde(default)]
    pub(super) force_address: bool,
    #[serde(default)]
    pub(super) ip_masq: bool,
    #[serde(default)]
    mtu: u32,
    #[serde(default)]
    pub(super) hairpin_mode: bool,
    #[serde(default)]
    pub(super) promisc_mode: bool,
    #[serde(default, rename = "enabledad")]
    pub(super) enable_dad: bool,
    #[serde(default)]
    pub(super) port_isolation: bool,
    #[serde(default, rename = "macspoofchk")]
    pub(super) mac_spoof_check: bool,
    #[serde(flatten)]
    pub(super) vlan: VlanConf,
    #[serde(default, rename = "runtimeConfig")]
    runtime: Mac,
    #[serde(default)]
    args: Args,
}

#[derive(Debug, Default, Deserialize)]
struct Args {
    #[serde(default)]
    cni: Mac,
}

#[derive(Debug, Default, Deserialize)]
struct Mac {
    #[serde(default)]
    mac: String,
}

impl BridgeConf {
    pub(super) fn read(call: &Call<'_>) -> Result<Self, NativeError> {
        let mut conf: Self = call.conf()?;
        conf.is_gateway |= conf.is_default_gateway;
        if conf.hairpin_mode && conf.promisc_mode {
            let why = "cannot set hairpin mode and promiscuous mode at the same time.";
            return Err(NativeError::Config(why.to_owned()));
        }
        if conf.bridge.parse::<InterfaceName>().is_err() {
            return Err(NativeError::Config(format!(
                "{:?} is not a valid bridge name",
                conf.bridge
            )));
        }
        Ok(conf)
    }

    /// Returns the MTU; the kernel's default if `None`.
    pub(super) fn mtu(&self) -> Option<u32> {
        (self.mtu != 0).then_some(self.mtu)
    }

    /// Returns the requested Ethernet address of the pod, if any; the last source wins.
    pub(super) fn mac(&self, call: &Call<'_>) -> Result<Option<MacAddress>, NativeError> {
        let asked = [
            self.runtime.mac.as_str(),
            self.args.cni.mac.as_str(),
            call.arg("MAC").unwrap_or(""),
        ];
        let text = asked.into_iter().find(|text| !text.is_empty());
        text.map(str::parse)
            .transpose()
            .map_err(|error: InvalidMac| NativeError::Config(error.to_string()))
    }
}

fn default_bridge() -> String {
    "cni0".to_owned()
}
