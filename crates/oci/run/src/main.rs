//! `orlop-run`: an OCI runtime with runc's command line.
//!
//! ```text
//! args ─► verb ─► bundle (config.json, checked) ─► plan (everything that needs the host, opened)
//!                                                    │ clone3
//!                        parent: maps, hooks, state ◄─┤ messages over a socket pair
//!                                                     └─► child: carries the plan out by system
//!                                                         calls, waits in a fifo, execve
//! ```
//!
//! One thread, no async. The child of a clone allocates nothing and takes no lock: everything it needs is prepared
//! before ([`plan`]), and it reports failures by number ([`report`]).
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod args;
mod attached;
mod bundle;
mod cgroup;
mod child;
mod console;
mod criu;
mod entry;
mod error;
mod foreground;
#[cfg(test)]
mod fuzzed;
mod heap;
mod hooks;
mod json;
mod launch;
mod log;
mod mount;
mod netdev;
mod null;
mod plan;
mod protect;
mod rdt;
mod report;
mod search;
mod state;
mod sys;
mod time;
mod users;
mod verb;

fn main() -> std::process::ExitCode {
    entry::run()
}
