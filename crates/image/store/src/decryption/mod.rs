//! Keys for encrypted layers: where they are, who may use them, and which layers they decrypt.

mod files;
mod key_files;
mod key_scope;
mod name;
mod providers;

pub use key_files::KeyFiles;
pub(crate) use key_scope::KeysOf;
pub(crate) use name::name;
pub(crate) use providers::provider_addresses;
