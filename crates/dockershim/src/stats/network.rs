//! What went over a pod's network interfaces, seen from inside its namespace.

use orlop_cri::v1::{NetworkInterfaceUsage, NetworkUsage};
use orlop_network::traffic_of;

use super::meter::value;
use crate::clock;

/// The interface of the pod's own network, by convention.
const DEFAULT: &str = "eth0";

/// The figures of a process's namespace.
pub(super) fn usage(pid: u32) -> NetworkUsage {
    let (default, others): (Vec<_>, Vec<_>) = traffic_of(pid)
        .into_iter()
        .map(|interface| NetworkInterfaceUsage {
            rx_bytes: value(interface.received.bytes),
            rx_errors: value(interface.received.errors),
            tx_bytes: value(interface.sent.bytes),
            tx_errors: value(interface.sent.errors),
            name: interface.name,
        })
        .partition(|interface| interface.name == DEFAULT);
    NetworkUsage {
        timestamp: clock::now(),
        default_interface: default.into_iter().next(),
        interfaces: others,
    }
}
