//! Keys for encrypted layers: where they are, who may use them, and what they open.

mod files;
mod key_files;
mod name;
mod providers;
mod whose;

pub use key_files::KeyFiles;
pub(crate) use name::name;
pub(crate) use providers::provider_addresses;
pub(crate) use whose::KeysOf;
