//! Shares of processor caches and memory bandwidth (Intel RDT, AMD QoS). A file of partitions and classes, in the
//! format of containerd and CRI-O, is applied to groups of the kernel's `resctrl`.
//!
//! [`Partitions`] is the file, [`Machine`] the processor's features, [`plan`] computes the share of each group, and
//! [`settle`] applies it.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod error;
mod file;
mod groups;
mod machine;
mod mask;
mod mount;
mod plan;
mod schemata;
mod share;

pub use error::{Error, Result};
pub use file::{Class, Partitions};
pub use groups::{Settled, settle};
pub use machine::Machine;
pub use mount::Mount;
pub use plan::{Group, Plan, plan};
