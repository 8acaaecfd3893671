//! CRI as a test speaks it: raw clients, configurations, and the steps of a pod's life.

mod client;
mod container;
mod life;
mod logs;
mod pod;

pub use client::Cri;
pub use container::ContainerSpec;
pub use logs::{LogLine, read_log};
pub use pod::PodSpec;
