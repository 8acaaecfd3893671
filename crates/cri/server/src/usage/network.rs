//! Traffic of a pod's network interfaces, read inside its network namespace.

use orlop_cri_api::v1::{NetworkInterfaceUsage, NetworkUsage};
use orlop_network::InterfaceTraffic;

use super::meter::value;
use crate::clock;

/// The conventional name of the pod's main interface.
const DEFAULT: &str = "eth0";

/// Converts the traffic of a namespace's interfaces.
pub fn of_interfaces(interfaces: &[InterfaceTraffic]) -> NetworkUsage {
    let (default, others): (Vec<_>, Vec<_>) = interfaces
        .iter()
        .map(usage)
        .partition(|interface| interface.name == DEFAULT);
    NetworkUsage {
        timestamp: clock::now(),
        default_interface: default.into_iter().next(),
        interfaces: others,
    }
}

fn usage(interface: &InterfaceTraffic) -> NetworkInterfaceUsage {
    NetworkInterfaceUsage {
        name: interface.name.clone(),
        rx_bytes: value(interface.received.bytes),
        rx_errors: value(interface.received.errors),
        tx_bytes: value(interface.sent.bytes),
        tx_errors: value(interface.sent.errors),
    }
}
