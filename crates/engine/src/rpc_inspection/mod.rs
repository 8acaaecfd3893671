//! One file per call of `orlop.v1.Inspection`.

pub mod examine;
pub mod get_state;
pub mod list_traces;
