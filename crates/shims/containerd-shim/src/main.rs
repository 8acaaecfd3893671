//! `containerd-shim-orlop-v1`: a containerd shim that runs pods on our keeper.
//!
//! containerd starts this program for each pod ([`start`]). It leaves a server process that serves the tasks of the
//! pod's containers and the pod itself ([`serve`]). The calls are in [`task`] and [`sandbox`], one file each. As under
//! `orlop serve`, the keeper manages the processes: it calls the OCI runtime and is the parent of the containers. It
//! also replaces containerd's pause container. If the server dies, containerd runs this program for each container
//! ([`delete`]), which finds the keeper by its directory ([`place`]).

mod arguments;
mod caller;
mod calls;
mod cgroup;
mod delete;
mod error;
mod events;
mod failure_reason;
#[cfg(test)]
mod fuzzed;
mod info;
mod keeper;
mod log;
mod logger;
mod make_pod;
mod memory;
mod metrics;
mod options;
mod owner;
mod place;
mod pod;
mod print;
mod program;
mod rootfs;
mod runtime;
mod sandbox;
mod serve;
mod shared_files;
mod shim;
mod shm;
mod shut_down;
mod spec;
mod start;
mod stdio;
mod task;
mod tasks;
mod terminal;
mod users;

use std::process::ExitCode;

use arguments::{Action, Arguments};

fn main() -> ExitCode {
    memory::be_frugal();
    let arguments = match Arguments::parse(std::env::args_os().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => return complain(&problem),
    };
    let done = match arguments.action {
        Action::Version => {
            println!("containerd-shim-orlop-v1 {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        Action::Info => info::run(),
        Action::Start => start::run(&arguments),
        Action::Delete => delete::run(&arguments),
        Action::Serve => serve::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(status) => complain(&status.message),
    }
}

fn complain(problem: &str) -> ExitCode {
    eprintln!("containerd-shim-orlop-v1: {problem}");
    ExitCode::FAILURE
}
