//! Resource usage of containers and pods in the CRI's format: statistics, and metrics under cAdvisor's names, labels
//! and types, so that dashboards keep working.

mod descriptors;
mod disk;
mod meter;
mod network;
mod processes;
mod samples;
mod writable_layer;

pub use descriptors::{TABLE, descriptors};
pub use disk::Disk;
pub use meter::{Meter, Reading, value};
pub use network::of_interfaces;
pub use processes::{Processes, Seen, Tasks};
pub use samples::{of_cgroup, of_processes, traffic};
pub use writable_layer::WritableLayer;
