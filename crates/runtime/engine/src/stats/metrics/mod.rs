//! Metrics of pods and containers under the names, labels and types that cAdvisor gave them, so
//! that dashboards keep working when the kubelet takes them from us.

mod container;
mod pod;

pub use orlop_cri_server::usage::{Disk, descriptors};
pub use pod::of_pod;
