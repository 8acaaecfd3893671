//! Containers written out and restored by CRIU, the program of that name.
//!
//! ```text
//! dump:    options + what is not the container's own ─► criu ─► images, descriptors.json
//! restore: cgroup ─► criu, in it and in mounts of its own ─► processes, of which we are the parent
//! ```
//!
//! CRIU is told what to do by messages ([`rpc`], [`request`]) over a pair of sockets ([`session`]), and
//! says where it is by notices, each of which waits for an answer.

mod dump;
mod external;
mod options;
mod quote;
mod request;
mod restore;
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod rpc;
mod session;
mod stage;

pub(crate) use dump::{directory, dump};
pub(crate) use options::Options;
pub(crate) use request::CGROUP_MODES;
pub(crate) use restore::restore;
