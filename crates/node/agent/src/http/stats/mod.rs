//! Resource usage of pods and the node: `/stats/summary` and `/metrics/resource`.

mod node;
mod resource;
mod summary;
mod system;
mod usage;

pub(super) use resource::resource_metrics;
pub(super) use summary::summary;
