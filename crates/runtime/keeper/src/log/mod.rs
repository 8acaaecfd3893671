//! Container logs in the CRI format.
//!
//! ```text
//! container ─pipe─► Lines (split, stamp) ─► Log (buffer ≤ 1 MiB) ─► Writer (thread) ─► file
//! ```
//!
//! The whole buffer is handed to the thread, with one job per log at a time. Output that arrives during a write goes
//! out with the next one.

mod file;
mod lines;
mod quota;
mod sink;
mod writer;

pub(crate) use file::Place;
pub(crate) use sink::Log;
pub(crate) use writer::{Report, Writer};
