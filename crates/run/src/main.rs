//! An OCI runtime with runc's command line.

fn main() {}
