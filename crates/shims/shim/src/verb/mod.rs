//! The commands, one module each.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod end_pod;
pub(crate) mod features;
pub(crate) mod kill;
pub(crate) mod ps;
pub(crate) mod start;
pub(crate) mod state;
pub(crate) mod update;
pub(crate) mod version;
