//! Signature stores beside registries, as configured in containers-registries.d(5), and the signatures in them.

mod base;
mod document;
mod fetch;
mod stores;

pub(crate) use base::Base;
pub(crate) use document::parse as parse_stores;
pub(crate) use fetch::find;
pub(crate) use stores::Stores;
pub use stores::check_signature_stores;
