//! System calls that no safe wrapper covers.

pub(crate) mod heap;
pub(crate) mod loopback;
pub(crate) mod mount;
pub(crate) mod namespace;
pub(crate) mod process;
pub(crate) mod signal;
pub(crate) mod spawn;
pub(crate) mod stack;
