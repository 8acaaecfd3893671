//! The pods' networks: namespaces, CNI configuration, plugins run as programs
//! or in process, port mapping.
//!
//! [`Networks`] is the entry point. It reads the CNI configuration directory, attaches pods to the networks found
//! there, detaches them, and reports whether the node's network is ready. It does not depend on the CRI.
//!
//! * [`cni`]: the contract with plugins: configuration and results.
//! * `plugins`: runs plugins, as programs or in process.
//! * `native`: the standard plugins in process, over netlink.
//! * `netlink`, `filter`: interfaces to the kernel.
//! * [`netns`]: creates and pins network namespaces.
//!
//! # Networks that run in process
//!
//! A chain runs in process if all its plugins are of `loopback`, `bridge`, `ptp`, `portmap`, `firewall`, `bandwidth`
//! and `tuning`, with addresses from `host-local` or `static`, and all its keys are known. With any other key
//! (`conditionsV4`, a backend other than `iptables`, …) the plugins' programs run, which must then be installed. The
//! key `"orlop.inProcess"` of a network (`auto`, `always`, `never`) overrides [`Config::in_process`].
//!
//! # Crash recovery
//!
//! [`Config::state_dir`] records each operation on a pod before it starts, and its result before it is reported.
//! After a crash, [`Networks::attach`] of the same pod, [`Networks::detach`] or [`Networks::gc`] continues from
//! there.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

pub mod cni;
pub mod netns;
pub mod spare;

mod annotations;
mod attachment;
mod bandwidth;
mod cidr;
mod config;
mod default_network;
mod error;
mod filter;
#[cfg(test)]
mod fuzzed;
mod journal;
mod mac;
mod names;
mod native;
mod netlink;
mod networks;
mod plugins;
mod pod_cidr;
mod pod_network;
mod status;
mod store;
mod traffic;
mod watch;

pub use annotations::InvalidAnnotation;
pub use attachment::{Attachment, PortMapping, Protocol};
pub use bandwidth::Bandwidth;
pub use cidr::Cidr;
pub use config::{Config, DefaultNetwork, InProcess, IpPreference};
pub use error::{Error, ErrorKind, NativeError, PluginError, PluginFailure};
pub use journal::JournalEntry;
pub use mac::MacAddress;
pub use names::{ContainerId, InterfaceName};
pub use networks::{GcReport, NetworkSummary, Networks, Orphan};
pub use pod_network::{AttachedNetwork, PodAddress, PodInterface, PodNetwork};
pub use status::Status;
pub use traffic::{Direction, InterfaceTraffic, TrafficReader, traffic_of};
