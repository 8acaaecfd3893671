//! `orlop.v1.Admin`: what an administrator asks of a running daemon, on the same
//! socket as the CRI, so that whoever may run pods may do this and nobody else.
//!
//! Every method takes and returns one `google.protobuf.StringValue`:
//!
//! | method | takes | returns |
//! |---|---|---|
//! | `GetLogLevel` | nothing | the log filter in force |
//! | `SetLogLevel` | a log filter | the log filter in force |
//! | `Reload` | nothing | what was read and what waits for a restart |
//! | `Tasks` | nothing | what is in work and what it waits for, as JSON |
//! | `Memory` | nothing | who holds memory, as JSON |
//! | `Profile` | a number of seconds | where processor time went meanwhile, as JSON |

pub(crate) mod client;
mod daemon;
mod service;

pub(crate) use daemon::DaemonArgs;
pub(super) use service::{Admin, describe};

const SERVICE: &str = "orlop.v1.Admin";
