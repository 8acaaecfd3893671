//! The standard plugins, done in process: the same configuration, the same
//! files, the same results as their programs give, without starting any.

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
