//! The Container Runtime Interface: messages, server glue, typed client.
//!
//! | module | what it holds |
//! |---|---|
//! | [`v1`] | the generated messages and services of CRI v1 |
//! | [`extensions`] | the generated `orlop.v1` services: what orlop does beyond the CRI |
//! | [`server`] | serving: message limits, the `v1alpha2` names, unbuilt calls |
//! | [`client`] | calling: a typed client for any endpoint |
//! | [`Endpoint`] | where a runtime listens |
//! | [`json`] | messages as JSON, with the names that CRI tools print and read |
//! | [`log`] | the format of container logs |
//! | [`pod_metrics`] | the metrics of pods and containers, and values of them |
//! | [`LabelValues`] | labels that many metrics have in common |
//! | [`Rpc`] | the calls by name |
//!
//! What calls and serves, and the JSON, is the feature `calls`, which is on unless it is declined.

#[cfg(feature = "calls")]
pub mod client;
#[cfg(feature = "calls")]
mod endpoint;
mod finding;
#[cfg(feature = "calls")]
pub mod json;
pub mod log;
mod metric;
pub mod pod_metrics;
mod redact;
#[cfg(feature = "calls")]
mod rpc;
#[cfg(feature = "calls")]
pub mod server;

#[cfg(feature = "calls")]
pub use endpoint::{Endpoint, EndpointError};
pub use metric::{CommonLabels, LabelValues};
#[cfg(feature = "calls")]
pub use rpc::Rpc;

/// The newest CRI v1, generated from `proto/runtime/v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/runtime.v1.rs"));

    pub use crate::metric::Metric;
}

/// What orlop can do beyond the CRI, generated from `proto/orlop/v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod extensions {
    include!(concat!(env!("OUT_DIR"), "/orlop.v1.rs"));
}

pub use extensions as images;
pub use extensions as inspection;
