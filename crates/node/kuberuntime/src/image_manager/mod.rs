//! Image management, as in the kubelet's `EnsureImageExists`: pulls within the node's limits,
//! credentials, and removal of unused images.

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
