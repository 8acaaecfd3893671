//! Recovery of the state that an earlier run of the daemon left.

pub mod abandoned_trials;
pub mod restore;
pub mod tidy;
pub mod unrecorded;
