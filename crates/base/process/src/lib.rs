//! Processes: on which processor a new one begins, and the end of runtimes whose caller is dead.

pub mod orphans;
pub mod processor;
