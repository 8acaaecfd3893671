//! Eviction of pods before the node runs out of a resource.

mod observe;
mod pressure;
mod rank;
mod thresholds;

pub(crate) use observe::{Places, observe};
pub(crate) use pressure::{Condition, Pressure, Verdict};
pub(crate) use rank::{Candidate, rank};
pub(crate) use thresholds::{Signal, Thresholds};
