//! The per-pod process.
fn main() {}
