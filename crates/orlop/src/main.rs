//! A Kubernetes node's container runtime.
fn main() {}
