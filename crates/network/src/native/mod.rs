//! The standard plugins in process. They use the same configuration and files as their programs and give the same
//! results, without a child process.

mod address_store;
mod bandwidth;
mod bridge;
mod bridge_conf;
mod bridge_device;
mod bridge_vlan;
mod call;
mod dns;
mod firewall;
mod host_local;
mod ipam;
mod loopback;
mod mac_spoofing;
mod masquerade;
mod plugin;
mod pod_interface;
mod portmap;
mod ptp;
mod range;
mod reaper;
mod static_ipam;
mod suited;
mod sysctl;
mod tuning;
mod veth;

pub(crate) use call::Call;
pub(crate) use plugin::{NativePlugin, did_what_programs_cannot_undo};
pub(crate) use suited::first_unsuited;
