//! Finds keys for encrypted layers, checks who may use them, and decrypts layer keys.

mod files;
mod key_files;
mod key_scope;
mod name;
mod providers;

pub use key_files::KeyFiles;
pub(crate) use key_scope::KeysOf;
pub(crate) use name::name;
pub(crate) use providers::provider_addresses;
