//! The node agent: runs pods from manifests, without a cluster.
//!
//! An [`Agent`] reads manifests from a directory, a URL, the standard input and `orlop apply`. It
//! admits or rejects their pods and runs them with a [`orlop_kuberuntime::manager::Manager`]. It
//! evicts pods when the node runs out of a resource, and serves the kubelet's HTTP API.
//!
//! ```text
//!  source::{directory, url, stdin, store} ──snapshots──► roster ──orders──► manager ──► runtime
//!        │                                      ▲   ▲                          │
//!   manifest::load (yaml, schema,               │   └── evictor (pressure)     │
//!   expansion, defaults, validation)       admission                        http
//! ```
//!
//! A rejected or evicted pod is retried when there is room, because no controller would do that. A
//! manifest that becomes invalid keeps the pods that it last described.
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
