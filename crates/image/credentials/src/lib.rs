//! Who may pull from a registry, as docker's `config.json` says it: entries by registry, and helper
//! programs that know more.

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
