//! The native CRI service: pods and containers on keepers and OCI runtimes.
//!
//! [`Engine`] is the service. An RPC is answered by the file of its name in `rpc/`, or, if it is
//! one of `orlop.v1`, in `rpc_images/`, `rpc_networks/`, `rpc_containers/` or `rpc_inspection/`; what they
//! share is beside them:
//!
//! * `pod`, `container`: what exists, with its journal (`recorded`, `journal`, `encoded`)
//! * `sandbox`, `network`, `files`: what a pod is made of
//! * `bundle`, `spec`: what a container is made of
//! * `process`, `session`: starting and stopping processes, commands in containers
//! * `reach`: paths that clients name, which may lead to file systems that do not answer
//! * `limits`: changing what a container may use; `nri`: what plugins see and change
//! * `exits`, `execs`: what happens by itself; `doctor`: what is wrong with a node
//! * `teardown`, `restore`, `tidy`: undoing, and taking up what an earlier run left
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

use off_reactor::blocking;
use orlop_service::{clock, events, timeline};
