//! A pod's life: what it is made of, what its keeper reports, how it is undone with all that is in it.

mod files;
pub mod keeper_events;
mod network;
pub mod network_gc;
pub mod reconnect;
pub mod sandbox;
pub mod shared;
pub mod teardown;
