//! The actions that a pod needs: what to start, kill, resize and reset, in order.

mod compute;
mod hold;
mod init;
mod reset;
mod resize;
#[cfg(test)]
mod tests;
mod types;

pub use compute::compute_pod_actions;
pub use hold::hold_back;
pub use types::{
    ActuatedResources, Kill, KillReason, Observed, PodActions, ProbeResult, ProbeResults, Reset,
    Resize,
};
