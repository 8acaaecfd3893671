//! The native CRI service: pods and containers on keepers and OCI runtimes.
//!
//! [`Engine`] is the service. An RPC is answered by the file of its name in `rpc/`, or, if it is
//! one of `orlop.v1`, in `rpc_images/`, `rpc_networks/`, `rpc_containers/` or `rpc_inspection/`; what they
//! share is beside them, from the ground to the roof (nothing uses what stands below it in this list):
//!
//! * `spec`: from a request to an OCI specification, one file per concern
//! * `reach`: paths that clients name, which may lead to file systems that do not answer
//! * `record`: the pods and containers that exist, with their journals, and how clients see them
//! * `image`: which image a name means, who may have it, the pulls under way
//! * `node`: all that is held while the service runs: cgroups, runtimes, paths, counters …
//! * `ask`: requests, judged before anything is made
//! * `checkpoint`: writing containers out, and letting them go on from that
//! * `container`: bundles, processes, limits, commands in containers
//! * `nri`: what plugins see and change
//! * `pod`: what a pod is made of, what its keeper reports, undoing it with all that is in it
//! * `stats`, `streaming`: figures of what runs; what stands behind exec, attach and port-forward
//! * `after_restart`: taking up what an earlier run left
//! * `doctor`: what is wrong with a node
//! * `service`, `start`: the calls handed on; how all of it comes up and goes down
//!
//! A function is given what it needs: one or two things that the node holds (`&Images`, `&Cgroups`), the
//! `&Node` if it needs more, an `&Arc<Node>` only where something of it goes on by itself.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod after_restart;
mod ask;
mod batches;
mod checkpoint;
pub mod config;
mod container;
pub mod doctor;
mod engine;
mod error;
mod gauges;
mod image;
mod node;
mod nri;
mod off_reactor;
mod pod;
mod reach;
mod reconfigure;
mod record;
mod rpc;
mod rpc_containers;
mod rpc_images;
mod rpc_inspection;
mod rpc_networks;
mod service;
mod spec;
mod start;
mod stats;
mod streaming;

pub use config::Config;
pub use engine::Engine;
pub use error::{Error, Result, chain};
pub use gauges::Gauges;
pub use node::metrics::Metrics;
pub use orlop_pool::{Occupied, places};

use off_reactor::blocking;
use orlop_cri_server::{clock, events, timeline};
