//! The network that pods use if none is configured.

use serde_json::json;

use crate::DefaultNetwork;
use crate::cni::{ConfError, NetworkConf};

impl DefaultNetwork {
    /// Returns the network as a configuration that an administrator could write.
    pub(crate) fn conf(&self) -> Result<NetworkConf, ConfError> {
        let ranges: Vec<_> = self
            .subnets
            .iter()
            .map(|subnet| json!([{ "subnet": subnet }]))
            .collect();
        let routes: Vec<_> = self
            .subnets
            .iter()
            .map(|subnet| json!({ "dst": if subnet.is_ipv4() { "0.0.0.0/0" } else { "::/0" } }))
            .collect();
        NetworkConf::from_list(json!({
            "cniVersion": "1.1.0",
            "name": self.name,
            "orlop.inProcess": "always",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": self.bridge,
                    "isGateway": true,
                    "ipMasq": true,
                    "hairpinMode": true,
                    "mtu": self.mtu.unwrap_or(0),
                    "ipam": {
                        "type": "host-local",
                        "dataDir": self.data_dir,
                        "ranges": ranges,
                        "routes": routes,
                    },
                },
                { "type": "portmap", "capabilities": { "portMappings": true } },
                { "type": "bandwidth", "capabilities": { "bandwidth": true } },
            ],
        }))
    }
}
