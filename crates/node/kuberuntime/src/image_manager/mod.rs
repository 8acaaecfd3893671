//! Images in action, the kubelet's `EnsureImageExists`: pulling within the node's limits, with whose credentials, and making room.

mod collect;
mod credential;
mod keyring;
mod limit;
mod provider;
mod puller;
mod records;

pub(crate) use collect::ImageCollector;
pub(crate) use keyring::Keyring;
pub(crate) use provider::Providers;
pub(crate) use puller::{ImageRef, Images, Wanted};
pub(crate) use records::PullRecords;
