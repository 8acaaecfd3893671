//! Handlers of `orlop.v1.Networks`, one file per RPC.

pub mod collect_network_garbage;
pub mod list_attachments;
pub mod list_networks;
