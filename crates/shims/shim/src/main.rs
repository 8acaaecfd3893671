//! `orlop-shim`: containerd's shims behind the command line of an OCI runtime, so that a pod's keeper runs them as it
//! runs runc.
//!
//! A shim serves the containers of one pod. A *supervisor* ([`supervisor`]) starts the shim and stays beside it. Each
//! process in the shim has a *proxy* ([`proxy`]): a child of the keeper with the process's streams. The proxy forwards
//! signals and exits as the process does; if the proxy is killed, the process is killed. The commands of runc's
//! command line are in [`verb`], one file each; [`exec`] is the same for all runtimes.
//!
//! OCI runtimes whose containers need a sandbox container are run in the same way ([`sandboxed`]).

mod announcement;
mod answers;
mod arguments;
mod background;
mod command;
mod connect;
mod controller;
mod end_task;
mod endpoint;
mod error;
mod events;
mod exec;
mod fifo;
mod figures;
mod grpc;
mod hostname;
mod launch;
mod mounts;
mod namespace;
mod pause;
mod process;
mod processes;
mod proxy;
mod question;
mod ready;
mod rootfs;
mod rpc;
mod sandboxed;
mod shim_log;
mod signals;
mod spec;
mod state_dir;
mod streaming;
mod streams;
mod supervisor;
mod task;
mod terminal;
mod verb;
mod watching;

use std::io::Write;
use std::process::ExitCode;

use arguments::{Settings, Words};
use error::{Error, Result};
use state_dir::StateDir;

fn main() -> ExitCode {
    let parsed = arguments::parse(std::env::args_os().skip(1));
    let (settings, command, words) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            eprintln!("orlop-shim: {error}");
            return ExitCode::from(2);
        }
    };
    match run(&settings, &command, &words) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            explain(&settings, &error);
            ExitCode::FAILURE
        }
    }
}

fn run(settings: &Settings, command: &str, words: &Words) -> Result<u8> {
    match command {
        "version" => {
            verb::version::run(settings)?;
            return Ok(0);
        }
        "features" => {
            let told = match &settings.inner {
                Some(inner) => sandboxed::features(settings, inner),
                None => verb::features::of_shim(settings),
            };
            verb::features::print(told.as_deref());
            return Ok(0);
        }
        _ => {}
    }
    if settings.root.as_os_str().is_empty() {
        return Err(Error::Usage("--root is missing".into()));
    }
    let state = StateDir::new(settings.root.clone());
    if let Some(inner) = &settings.inner {
        return sandboxed::run(settings, inner, &state, command, words);
    }
    match command {
        "supervise" => supervisor::run(settings, &state, words)?,
        "proxy" => return proxy::run(settings, &state, words).map(|code| code as u8),
        "create" => verb::create::run(settings, &state, words)?,
        "start" => verb::start::run(&state, words)?,
        "exec" => exec::run(settings, &state, words)?,
        "kill" => verb::kill::run(&state, words)?,
        "delete" => verb::delete::run(settings, &state, words)?,
        "state" => verb::state::run(&state, words)?,
        "ps" => verb::ps::run(&state, words)?,
        "pause" => state.shim_of(&words.word(0)?)?.pause(&words.word(0)?)?,
        "resume" => state.shim_of(&words.word(0)?)?.resume(&words.word(0)?)?,
        "update" => verb::update::run(&state, words)?,
        "end-pod" => verb::end_pod::run(settings, &state, words)?,
        _ => {
            let problem = format!("unknown command {command}");
            return Err(Error::Usage(problem));
        }
    }
    Ok(0)
}

/// Reports an error to the caller in runc's format.
fn explain(settings: &Settings, error: &Error) {
    let Some(path) = &settings.log else {
        eprintln!("orlop-shim: {error}");
        return;
    };
    let line = serde_json::json!({"level": "error", "msg": error.to_string()});
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(path);
    if log.and_then(|mut log| writeln!(log, "{line}")).is_err() {
        eprintln!("orlop-shim: {error}");
    }
}
