//! Migration of the configuration: which settings orlop takes over, has anyway, or does not support.

mod containerd;
mod containerd_rules;
mod cri_dockerd;
mod crio;
mod crio_rules;
mod docker;
mod docker_registries;
mod hosts;
mod line;
mod plan;
mod registries;
mod render;
mod rule;
mod secrets;
#[cfg(test)]
mod tests;

pub use containerd::containerd_plan;
pub use cri_dockerd::CriDockerd;
pub use crio::crio_plan;
pub use docker::docker_plan;
pub use plan::{Machine, Note, Outcome, Plan};
