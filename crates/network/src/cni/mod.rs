//! The Container Network Interface, from the runtime's side: configurations, plugin arguments and results.

mod args;
mod cache;
mod conf;
mod conf_dir;
mod read_bounded;
mod result;
mod verb;
mod version;

pub use args::RuntimeArgs;
pub use cache::{Cache, CachedAttachment};
pub use conf::{ConfError, NetworkConf, PluginConf};
pub use conf_dir::{ConfDir, Loaded};
pub use result::{CniResult, Dns, Interface, IpConfig, ResultError, Route};
pub use verb::Verb;
pub use version::{SpecVersion, UnknownVersion};
