//! Registry credentials from docker's `config.json`: entries by registry, and credential helpers.

mod entry;
mod file;
mod helper;
mod largest;
mod registry;

pub use entry::{Entry, decoded};
pub use file::{ConfigFile, Found, Unreadable};
pub use helper::{HelperError, Helpers};
pub use largest::LARGEST;
pub use registry::{Paths, Pattern, host_of, same_registry, split_name};
