//! The Container Runtime Interface: messages, server glue, typed client.

/// The newest CRI v1, generated from `proto/runtime/v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("runtime.v1");
}
