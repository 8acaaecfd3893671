//! Metrics of pods and containers with the names, labels and types of cAdvisor, so that dashboards continue to work if
//! the kubelet reads them from the runtime.

mod container;
mod pod;

pub use orlop_cri_server::usage::{Disk, descriptors};
pub use pod::of_pod;
