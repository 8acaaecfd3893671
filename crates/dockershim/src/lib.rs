//! The CRI service over a Docker Engine.
//!
//! [`Shim`] is the service. Each RPC is implemented by the file of its name in `rpc/`. The shared state
//! is split into parts, and each part gets only the others that it needs. `shim` holds all parts, `start`
//! creates them, and `reconcile` follows the state of the engine:
//!
//! * `docker`: the engine's API; `engine_info`, `engine_return`: its `/info`, and its return after an outage
//! * `names`, `labels`, `checkpoint(s)`: how pods and containers are identified in the engine, and
//!   without it
//! * `create`: translates requests into the engine's format; `view`: translates back
//! * `network`, `hairpin`, `resolv`: a pod's network
//! * `log`: copies the engine's logs to files of the CRI's format
//! * `events`, `stats`, `exec`, `streaming`: events, resource usage, and sessions
//! * `pause`, `elf`: the process of a sandbox
//! * `pull`: images through the engine; `policy`: which of them are allowed; `image_usage`: their size
//!
//! The engine is the only record of containers. The cache of its state (`remembered`) is cleared
//! at any change, so that a restart of either side loses nothing.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod checkpoint;
mod checkpoints;
mod clock;
pub mod config;
mod conflict;
mod create;
mod credentials;
mod docker;
mod earlier;
mod elf;
mod engine_info;
mod engine_return;
mod error;
mod event_lines;
mod events;
mod exec;
mod find;
#[cfg(test)]
mod fuzzed;
mod hairpin;
mod image_usage;
mod labels;
mod lanes;
mod limits;
mod listed;
mod log;
mod names;
mod network;
mod pause;
mod policy;
mod pull;
mod reconcile;
mod remembered;
mod resolv;
mod retry;
mod rpc;
mod rpc_images;
mod rpc_inspection;
mod runtime_cgroup;
mod service;
mod shim;
mod start;
mod stats;
mod stop_signal;
mod streaming;
mod view;

pub use config::Config;
pub use docker::Operations;
pub use error::{Error, Result, chain};
pub use shim::Shim;
