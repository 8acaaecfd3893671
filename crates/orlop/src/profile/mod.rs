//! CPU profile of this process: a kernel timer counts its processor time, and SIGPROF interrupts the running thread,
//! whose stack becomes a sample.
//!
//! ```text
//! daemon:  sampler ──► stacks ──► symbols ──► Profile (JSON)
//! client:  Profile ──► output (pprof, flame graph, folded stacks)
//! ```

mod output;
mod record;
mod recording;
mod sampler;
mod stacks;
mod symbols;

pub(crate) use output::{Format, write};
pub(crate) use record::{MOST_SECONDS, record};
pub(crate) use recording::Profile;
