//! CRI for tests: clients, configurations, and life cycle shortcuts.

mod client;
mod container;
mod life;
mod logs;
mod pod;

pub use client::Cri;
pub use container::ContainerSpec;
pub use logs::{LogLine, read_log};
pub use pod::PodSpec;
