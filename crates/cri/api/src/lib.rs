//! The Container Runtime Interface: messages, server glue, typed client.
//!
//! | module | contents |
//! |---|---|
//! | [`v1`] | the generated messages and services of CRI v1 |
//! | [`extensions`] | the generated `orlop.v1` services, which extend the CRI |
//! | [`server`] | serving: message limits, the `v1alpha2` names, unimplemented calls |
//! | [`client`] | calling: a typed client for any endpoint |
//! | [`Endpoint`] | the address of a runtime |
//! | [`json`] | messages as JSON, with the names that CRI tools print and read |
//! | [`log`] | the format of container logs |
//! | [`pod_metrics`] | the metrics of pods and containers, and their values |
//! | [`LabelValues`] | labels that many metrics have in common |
//! | [`Rpc`] | the calls by name |
//!
//! The feature `calls`, on by default, contains the client, the server and JSON.

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

/// The `orlop.v1` extensions of the CRI, generated from `proto/orlop/v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod extensions {
    include!(concat!(env!("OUT_DIR"), "/orlop.v1.rs"));
}

pub use extensions as images;
pub use extensions as inspection;
