//! What is wrong with a node, and how to mend it.
//!
//! [`examine_host`] (or [`examine_host_below_docker`]) needs no daemon; what belongs to no pod only
//! a running one can tell ([`orphans`]).

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
