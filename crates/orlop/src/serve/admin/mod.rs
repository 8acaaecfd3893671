//! `orlop.v1.Admin`: administration of a running daemon, on the same socket as the CRI. Clients that may run pods may
//! use it, and no others.
//!
//! Every method takes and returns one `google.protobuf.StringValue`:
//!
//! | method | takes | returns |
//! |---|---|---|
//! | `GetLogLevel` | nothing | the log filter in force |
//! | `SetLogLevel` | a log filter | the log filter in force |
//! | `Reload` | nothing | keys that took effect, and keys that need a restart |
//! | `Tasks` | nothing | running work and what it waits for, as JSON |
//! | `Memory` | nothing | memory usage, as JSON |
//! | `Profile` | a number of seconds | CPU profile of that time, as JSON |

pub(crate) mod client;
mod daemon;
mod service;

pub(crate) use daemon::DaemonArgs;
pub(super) use service::{Admin, describe};

const SERVICE: &str = "orlop.v1.Admin";
