//! One file per call of `orlop.v1.Networks`.

pub mod collect_network_garbage;
pub mod list_attachments;
pub mod list_networks;
