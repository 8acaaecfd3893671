//! The messages of containerd and its shims, generated from `proto`.
//!
//! | module | contents |
//! |---|---|
//! | [`task`] | the Task service of a shim, version 2 or 3 |
//! | [`sandbox`] | the Sandbox service of a shim |
//! | [`services`] | services of containerd: sandbox controller and store, events, streams, version |
//! | [`events`] | events of tasks |
//! | [`bootstrap`] | the input and output of a shim's start |
//! | [`runc`], [`runtimeoptions`] | options of shims |
//! | [`types`], [`task_types`] | types that several services share |
//! | [`transfer`] | messages on streams |
//! | [`cgroups`] | statistics of cgroups |
//!
//! The definitions have the fields that orlop uses; decoders ignore other fields. The memory of a decoded message is
//! proportional to its encoding, so callers limit the size of the encoding.

mod any;

/// Trait that decodes and encodes messages.
pub use prost::Message;

pub use api::containerd::runc::v1 as runc;
pub use api::containerd::runtime::bootstrap::v1 as bootstrap;
pub use api::containerd::runtime::sandbox::v1 as sandbox;
pub use api::containerd::task::v3 as task;
pub use api::containerd::types::transfer;
pub use api::containerd::v1::types as task_types;
pub use api::containerd::{events, types};
pub use api::google::protobuf::{Any, Timestamp};
pub use api::io::containerd::cgroups;
pub use api::runtimeoptions::v1 as runtimeoptions;

/// The services of containerd itself.
pub mod services {
    pub use crate::api::containerd::services::events::v1 as events;
    pub use crate::api::containerd::services::sandbox::v1 as sandbox;
    pub use crate::api::containerd::services::streaming::v1 as streaming;
    pub use crate::api::containerd::services::version::v1 as version;
}

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod api {
    include!(concat!(env!("OUT_DIR"), "/api.rs"));
}
