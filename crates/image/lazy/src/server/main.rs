//! `orlop-lazy`: a FUSE file system of layers whose parts are fetched on demand.
//!
//! The daemon starts one process per node, which outlives the daemon. Its file system is one flat directory of
//! read-only files, which the kernel mounts as EROFS. The server answers reads of present parts from the layer's file
//! on disk. For missing parts it waits until the daemon has fetched them. It does not know directory trees,
//! registries or digests. [`orlop_lazy`] has the format on disk and the daemon's side.
//!
//! ```text
//! kernel ─/dev/fuse─► readers (reader.rs)  ─present─► answer.rs: spliced from the layer's file
//!                        │ missing
//!                        ▼
//!                     waiting.rs ──► control.rs ─socket─► the daemon fetches, marks, answers
//! ```
//!
//! It may be killed at any instruction. The daemon holds the session's descriptor, with which a successor takes over.
//! [`journal`] has the unanswered requests for kernels that cannot resend them. Without reads, all threads sleep.

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
