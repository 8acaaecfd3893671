//! The CRI service over a Docker Engine.
//!
//! [`Shim`] is the service. An RPC is answered by the file of its name in `rpc/`. What they share
//! is in parts, of which each has only those that it needs; `shim` holds them all, `start` makes
//! them, and `reconcile` keeps up with the engine:
//!
//! * `docker`: the engine's API; `engine_info`, `engine_return`: what it is, and whether it is back
//! * `names`, `labels`, `checkpoint(s)`: how pods and containers are known to the engine, and
//!   without it
//! * `create`: what a pod or container asks for, in the engine's words; `view`: the way back
//! * `network`, `hairpin`, `resolv`: a pod's network
//! * `log`: the engine's logs as files of the CRI's format
//! * `events`, `stats`, `exec`, `streaming`: what happens, what is used, and sessions
//! * `pause`, `elf`: the process of a sandbox
//! * `pull`: images through the engine; `policy`: which of them may be used; `image_usage`: their size
//!
//! The engine is the only record of containers. What is remembered here of what it knows
//! (`remembered`) is forgotten at any word of a change, so that a restart of either loses nothing.
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
