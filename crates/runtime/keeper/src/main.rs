//! `orlop-keeper`: the parent process, log writer and exit recorder of one pod.
//!
//! The daemon starts a keeper and describes the pod in its first message. The keeper lives until it is told to shut
//! down. It lives *inside* the pod's namespaces, so that its `/proc/<pid>/ns/…` are the pod's, and in its own mount
//! namespace. It knows no particular runtime: each request contains the command line to execute.
//!
//! One thread waits for all events with epoll ([`reactor`]). A second thread exists only while logs are written, so
//! that a slow disk delays neither exits nor requests ([`log`]).
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
