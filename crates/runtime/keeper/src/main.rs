//! `orlop-keeper`: the parent, log writer and witness of one pod's processes.
//!
//! A keeper is started by the daemon, told in its first message what pod it keeps, and lives until
//! it is told to shut down. It lives *inside* the pod's namespaces, so that `/proc/<pid>/ns/…` are
//! theirs, and in a mount namespace of its own. It knows nothing of runtimes: what it executes
//! comes with each request.
//!
//! One thread waits on everything with epoll ([`reactor`]); a second one exists only while logs
//! are kept, so that a slow disk holds up neither exits nor requests ([`log`]).
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod attach;
mod attachment;
mod call;
mod calls;
mod child;
mod clock;
mod closing;
mod connection;
mod console;
mod container;
mod detached;
mod entry;
mod exit;
mod failure;
mod keeper;
mod log;
mod main_loop;
mod null;
mod oom;
mod output;
mod pipe;
mod pod;
mod port_connection;
mod processes;
mod purpose;
mod reactor;
mod read;
mod request;
mod sys;
mod text;
mod tree;

fn main() -> std::process::ExitCode {
    entry::run()
}
