//! Resource usage of containers and pods, read from their cgroups. The engine would take one call and one second per
//! container.

mod container;
mod metrics;
mod place;
mod pod;

pub(crate) use container::{listed as listed_containers, of as of_container};
pub(crate) use metrics::all as all_metrics;
pub(crate) use place::Stats;
pub(crate) use pod::{listed as listed_pods, of as of_pod};
