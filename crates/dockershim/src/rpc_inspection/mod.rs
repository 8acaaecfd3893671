//! One file per call of `orlop.v1.Inspection`.

pub(crate) mod examine;
pub(crate) mod get_state;
pub(crate) mod list_traces;
