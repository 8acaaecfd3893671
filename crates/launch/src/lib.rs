//! From an OCI spec to a running process.

pub mod oci;
