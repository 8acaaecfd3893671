//! One file per call of `orlop.v1.Containers`.

pub mod list_changes;
