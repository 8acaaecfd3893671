//! What pods and the node use: `/stats/summary` and `/metrics/resource`.

mod node;
mod rates;
mod resource;
mod summary;
mod system;
mod usage;

pub(crate) use rates::Rates;
pub(super) use resource::resource_metrics;
pub(super) use summary::summary;
