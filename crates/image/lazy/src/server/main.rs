//! `orlop-lazy`: a file system of layers of which parts are not here yet.
//!
//! It is started by the daemon, one for a node, and outlives it. Its file system is one flat directory
//! of read-only files, which the kernel mounts as EROFS; what is here of a file is answered from the
//! layer's file on disk, what is not waits for the daemon to fetch it. It knows no trees, no registry and
//! no digest. [`orlop_lazy`] has what is on disk and the daemon's side.
//!
//! ```text
//! kernel ─/dev/fuse─► readers (reader.rs)  ──here──► answer.rs: spliced from the layer's file
//!                        │ not here
//!                        ▼
//!                     waiting.rs ──► control.rs ─socket─► the daemon fetches, marks, answers
//! ```
//!
//! It may be killed at any instruction: the daemon holds the session's descriptor, a successor takes over
//! with it, and [`journal`] tells which requests it had read where the kernel does not send them again.
//! Where nobody reads, all threads sleep.

mod answer;
mod connection;
mod control;
mod entry;
mod failure;
mod fuse;
mod journal;
mod layers;
mod place;
mod reader;
mod session;
mod signal;
mod sys;
mod waiting;

fn main() -> std::process::ExitCode {
    entry::run()
}
