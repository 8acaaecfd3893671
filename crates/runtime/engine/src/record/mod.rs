//! Pods and containers and their records: identifiers and names, journals, and CRI messages.

pub mod container;
pub mod containers;
pub mod directories;
pub mod ids;
mod journal;
pub mod message_in_json;
pub mod messages;
pub mod names;
pub mod pod;
pub mod pod_files;
pub mod pods;
mod recorded;
pub mod spec_file;
pub mod store;
