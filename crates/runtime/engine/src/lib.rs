//! The native CRI service: pods and containers on keepers and OCI runtimes.
//!
//! [`Engine`] is the service. The file of its name in `rpc/` handles an RPC; the RPCs of `orlop.v1` are in
//! `rpc_images/`, `rpc_networks/`, `rpc_containers/` and `rpc_inspection/`. The shared modules are next to
//! them, from the bottom layer to the top (no module uses one that comes later in this list):
//!
//! * `spec`: conversion of a request to an OCI specification, one file per concern
//! * `reach`: paths that clients name, which may lead to file systems that do not respond
//! * `record`: the pods and containers that exist, with their journals and their CRI messages
//! * `image`: resolving image names, admission of images, pulls in progress
//! * `node`: the state of the running service: cgroups, runtimes, paths, counters …
//! * `ask`: validation of requests before anything is made
//! * `checkpoint`: checkpoints of containers, and restoring containers from them
//! * `container`: bundles, processes, limits, commands in containers
//! * `nri`: what plugins see and change
//! * `pod`: the parts of a pod, events of its keeper, removing it with its containers
//! * `stats`, `streaming`: statistics of running pods; the backend of exec, attach and port-forward
//! * `after_restart`: recovery of the state that an earlier run left
//! * `doctor`: diagnosis of a node
//! * `service`, `start`: dispatch of the calls; start and stop of the service
//!
//! A function takes what it needs: one or two fields of the node (`&Images`, `&Cgroups`), `&Node` if it
//! needs more, and `&Arc<Node>` only if it spawns work that outlives the call.
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
