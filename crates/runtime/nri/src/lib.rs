//! Node Resource Interface (NRI): plugins that observe pods and containers, adjust containers during their creation,
//! and update or evict them later.
//!
//! | module | content |
//! |---|---|
//! | [`v1alpha1`] | the generated messages |
//! | [`nri`](Nri) | the runtime's side: calls the plugins in their order |
//! | [`merge`] | merges the changes of several plugins, or reports a conflict |
//! | [`validator`] | the node's rules that no plugin may violate |
//! | `plugin`, `register`, `launch`, `listen` | a plugin, and its start and registration |
//! | `life` | start, reconfiguration and stop |
//! | `gate` | decides when a new plugin may receive the node's state |
//! | `connection`, `frame` | two ttrpc connections on one socket, for both ends |
//! | [`stub`] | a plugin's side, for plugins in Rust and for tests |
//!
//! The engine defines pods and containers, and adjusts specifications: this crate handles only plugins and messages.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod config;
mod connection;
mod error;
mod event;
mod frame;
#[cfg(test)]
mod fuzzed;
mod gate;
mod launch;
mod life;
mod listen;
mod marks;
pub mod merge;
mod metrics;
mod nri;
mod plugin;
mod register;
mod runtime;
pub mod spawn;
pub mod stub;
mod synchronize;
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod v1alpha1;
pub mod validator;

pub use config::{Config, Listen};
pub use connection::{CallError, Status, StatusCode};
pub use error::{Error, Result};
pub use event::Events;
pub use life::Prepared;
pub use marks::removed;
pub use metrics::Metrics;
pub use nri::{Created, Hold, Nri, PluginInfo, Updated};
pub use plugin::VERSION;
pub use runtime::{BoxFuture, Runtime};
pub use v1alpha1::Event;
