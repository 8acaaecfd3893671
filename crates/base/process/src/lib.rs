//! Processes: the processor on which a new one starts, and the cleanup of runtimes whose caller is dead.

pub mod orphans;
pub mod processor;
