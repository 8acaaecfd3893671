//! One interface over cgroup v1, v2 and the systemd driver.

mod error;
mod hierarchy;
mod path;

pub use error::Error;
pub use hierarchy::{Hierarchies, Version};
pub use path::{CgroupPath, Driver, PathError};
