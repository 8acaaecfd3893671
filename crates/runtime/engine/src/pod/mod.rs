//! The life of a pod sandbox: creation, keeper events, and teardown with all its containers.

mod files;
pub mod keeper_events;
mod network;
pub mod network_gc;
pub mod reconnect;
pub mod sandbox;
pub mod shared;
pub mod teardown;
