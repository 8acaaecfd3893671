//! Durations in the format of Go, as used by Kubernetes, containerd and docker.

mod read;
mod timeout;
mod write;

pub use read::{Wrong, parse, typed};
pub use timeout::Timeout;
pub use write::{go, short};
