//! The standard plugins, done in process: the same configuration, the same
//! files, the same results as their programs give, without starting any.

mod error;
mod loopback;
mod plugin;
mod suited;

pub use error::NativeError;
pub(crate) use plugin::{Call, NativePlugin};
pub(crate) use suited::first_unsuited;
