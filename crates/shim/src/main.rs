//! `orlop-shim`: containerd's shims behind the command line of an OCI
//! runtime, so that a pod's keeper runs them as it runs runc.
//!
//! A shim serves the containers of one pod. Beside it stays a *guard* ([`guard`]), which has
//! started it. For each process in it there is a *proxy* ([`proxy`]): a child of the keeper with
//! the process's streams, which passes signals on and ends as the process does; one that is killed
//! takes the process with it. The words of runc's command line are in [`verb`], a file each.

mod arguments;
mod background;
mod error;
mod guard;
mod home;
mod hunt;
mod launch;
mod mounts;
mod pause;
mod proto;
mod proxy;
mod ready;
mod signals;
mod spec;
mod task;
mod terminal;
mod ttrpc;
mod verb;

use std::io::Write;
use std::process::ExitCode;

use arguments::{Settings, Words};
use error::{Error, Result};
use home::Home;

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
            println!("orlop-shim version {}", env!("CARGO_PKG_VERSION"));
            return Ok(0);
        }
        "features" => {
            verb::features::run(settings);
            return Ok(0);
        }
        _ => {}
    }
    if settings.root.as_os_str().is_empty() {
        return Err(Error::Usage("--root is missing".into()));
    }
    let home = Home::new(settings.root.clone());
    match command {
        "guard" => guard::run(settings, &home, words)?,
        "proxy" => return proxy::run(settings, &home, words).map(|code| code as u8),
        "create" => verb::create::run(settings, &home, words)?,
        "start" => verb::start::run(&home, words)?,
        "exec" => verb::exec::run(settings, &home, words)?,
        "kill" => verb::kill::run(&home, words)?,
        "delete" => verb::delete::run(settings, &home, words)?,
        "state" => verb::state::run(&home, words)?,
        "ps" => verb::ps::run(&home, words)?,
        "pause" => task(&home, words)?.pause(&words.word(0)?)?,
        "resume" => task(&home, words)?.resume(&words.word(0)?)?,
        "update" => verb::update::run(&home, words)?,
        "end-pod" => verb::end_pod::run(settings, &home, words)?,
        _ => {
            let problem = format!("{command} is nothing that a shim can do");
            return Err(Error::Usage(problem));
        }
    }
    Ok(0)
}

/// The shim of the container that is named.
fn task(home: &Home, words: &Words) -> Result<task::Tasks> {
    home.task(&words.word(0)?)?.tasks(home)
}

/// Tells the caller why, in the form in which runc does.
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
