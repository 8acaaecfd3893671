//! The pods' networks: namespaces, CNI configuration, plugins run as programs
//! or in process, port mapping.
//!
//! [`Networks`] is the way in: it reads the CNI configuration directory,
//! attaches pods to the networks found there, detaches them again, and says
//! whether the node's network is ready. It knows nothing of the CRI.
//!
//! * [`cni`]: the contract with plugins: configuration, results, programs.
//! * `native`: the standard plugins, done here by netlink.
//! * `netlink`, `filter`: the kernel's side of it.
//! * [`netns`]: making and pinning network namespaces.

pub mod cni;
pub mod netns;

mod attachment;
mod bandwidth;
mod cidr;
mod config;
mod default_network;
mod error;
mod filter;
mod journal;
mod mac;
mod native;
mod netlink;
mod networks;
mod pod_cidr;
mod pod_network;
mod status;
mod store;
mod watch;

pub use attachment::{Attachment, ContainerId, InterfaceName, PortMapping, Protocol};
pub use bandwidth::Bandwidth;
pub use cidr::Cidr;
pub use config::{Config, DefaultNetwork, InProcess, IpPreference};
pub use error::{Error, ErrorKind, PluginError, PluginFailure};
pub use journal::JournalEntry;
pub use mac::MacAddress;
pub use native::NativeError;
pub use networks::{GcReport, Networks};
pub use pod_network::{AttachedNetwork, PodAddress, PodInterface, PodNetwork};
pub use status::Status;
