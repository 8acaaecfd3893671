//! Checkpoint and restore of containers with CRIU.
//!
//! ```text
//! dump:    options + external mounts and namespaces ─► criu ─► images, descriptors.json
//! restore: cgroup ─► criu, in that cgroup and its own mount namespace ─► processes, our children
//! ```
//!
//! CRIU receives requests as messages ([`rpc`], [`request`]) over a socket pair ([`session`]). It reports its progress
//! with notifications, each of which needs a reply.

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
