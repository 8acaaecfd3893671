//! Stores of signatures beside registries: which one is for an image, as containers-registries.d(5) says it, and
//! what is in it for a manifest.

mod base;
mod document;
mod fetch;
mod stores;

pub(crate) use base::Base;
pub(crate) use document::parse as parse_stores;
pub(crate) use fetch::find;
pub(crate) use stores::Stores;
pub use stores::check_signature_stores;
