//! The node agent: pods from manifests, without a cluster.
//!
//! An [`Agent`] reads manifests from a directory, a URL, the standard input and `orlop apply`,
//! decides which of the pods in them are let in, has a [`orlop_kuberuntime::manager::Manager`] run
//! those, ends some when the node runs out of something, and answers the kubelet's HTTP API.
//!
//! ```text
//!  source::{directory, url, stdin, store} ──snapshots──► roster ──orders──► manager ──► runtime
//!        │                                      ▲   ▲                          │
//!   manifest::load (yaml, schema,               │   └── evictor (pressure)     │
//!   expansion, defaults, validation)       admission                        http
//! ```
//!
//! A pod that was rejected for want of room, or evicted, is tried again when there is room, for
//! no controller would; and a manifest that goes bad keeps the pods that it last described.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod access;
mod admission;
mod agent;
mod applied;
mod capacity;
mod configuration;
mod demand;
mod document;
mod eviction;
mod evictor;
mod http;
mod manifest;
mod meminfo;
mod options;
mod page;
mod rates;
mod roster;
mod shared;
mod shutdown;
mod source;
mod tasks;

pub use agent::{Agent, AgentHandle};
pub use configuration::{
    Anonymous, Authentication, Authorization, ConfigurationError, FileRemark, KubeletConfiguration,
    Logging, PriorityGrace, Webhook, X509, read_configuration, read_pairs,
};
pub use manifest::{Remark, Weight};
pub use options::{AgentError, AgentOptions, AtEnd};
