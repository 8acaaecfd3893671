//! Checks of a node that report problems and their remedies.
//!
//! [`examine_host`] and [`examine_host_below_docker`] need no daemon. Only a running daemon can find resources that
//! belong to no pod ([`orphans`]).

mod cgroups;
mod clock;
mod disk;
mod host;
mod kernel;
mod keys;
mod lazy;
pub(crate) mod orphans;
mod rdt;
mod registries;
mod runtimes;
mod signatures;

pub use crate::node::runtimes::problems as runtime_problems;
pub use host::{examine_host, examine_host_below_docker};
use orlop_cri_api::inspection::Finding;
pub use registries::problems as registry_problems;
