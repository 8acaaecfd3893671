//! The client of the runtime service: pods, containers, exec, resource usage, node.

mod containers;
mod node;
mod pods;
mod service;
mod stats;
mod streams;

pub use node::Events;
pub use service::RuntimeClient;
