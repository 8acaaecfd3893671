//! The life of a container: its bundle, processes, limits, and commands that run in it.

pub mod bundle;
pub mod command;
pub mod hung_keeper;
mod image_volumes;
pub mod limits;
pub mod namespaces;
mod pid_namespace;
pub mod plan;
pub mod process;
pub mod without_keeper;
