//! Ending pods before the node itself runs out of something.

mod observe;
mod pressure;
mod rank;
mod thresholds;

pub(crate) use observe::{Places, observe};
pub(crate) use pressure::{Condition, Pressure, Verdict};
pub(crate) use rank::{Candidate, rank};
pub(crate) use thresholds::{Signal, Thresholds};
