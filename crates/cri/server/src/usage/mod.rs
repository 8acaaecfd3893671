//! What containers and pods use, in CRI's words: as statistics, and as metrics under the names,
//! labels and types that cAdvisor gave them, so that dashboards keep working.

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
