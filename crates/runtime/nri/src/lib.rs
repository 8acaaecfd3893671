//! The Node Resource Interface: plugins that look at pods and containers, adjust containers while
//! they are made, and update or evict them later.
//!
//! | module | what it holds |
//! |---|---|
//! | [`v1alpha1`] | the generated messages |
//! | [`nri`](Nri) | the runtime's side: who is asked about what, in which order |
//! | [`merge`] | several plugins' wishes become one, or a conflict |
//! | [`validator`] | the rules of a node that no plugin may break |
//! | `plugin`, `register`, `launch`, `listen` | a plugin, and how it comes to be one |
//! | `life` | how it comes up, changes its configuration and goes down |
//! | `gate` | when a new plugin may be told the node's state |
//! | `connection`, `frame` | two ttrpc connections on one socket, for both of its ends |
//! | [`stub`] | a plugin's side, for plugins in Rust and for tests |
//!
//! What a pod or container is, and how a specification is adjusted, the engine says: this crate
//! knows plugins and messages only.
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
