//! What containers and pods use, in CRI's words: as statistics, and as metrics under the names,
//! labels and types that cAdvisor gave them, so that dashboards keep working.

mod descriptors;
mod meter;
mod network;
mod processes;
mod samples;
mod writable_layer;

pub use descriptors::{TABLE, descriptors};
pub use meter::{Meter, Reading, value};
pub use network::of_process as network_of_process;
pub use processes::max_open_files;
pub use samples::{file_system, of_cgroup, of_processes, traffic};
pub use writable_layer::WritableLayer;
