//! What containers and pods use, read from their cgroups. The engine would do the same, one call
//! and one second per container.

mod container;
mod layer;
mod meter;
mod metrics;
mod network;
mod place;
mod pod;
mod processes;

pub(crate) use container::{listed as listed_containers, of as of_container};
pub(crate) use metrics::{all as all_metrics, descriptors};
pub(crate) use place::Stats;
pub(crate) use pod::{listed as listed_pods, of as of_pod};
