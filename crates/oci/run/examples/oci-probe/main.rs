//! What a process in a container sees, as one line of JSON: the witness of the differential test.
//!
//! `oci-probe` tells and ends, `oci-probe wait` tells and stays, `oci-probe end CODE` tells and ends with
//! that code, `oci-probe hook NAME FILE` adds to a file what a hook was told.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]

mod attempts;
mod files;
mod hook;
mod process;
mod terminal;

use std::io::Write;
use std::process::ExitCode;

use serde_json::{Value, json};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let [_, "hook", name, file] = words[..] {
        return hook::note(name, file);
    }
    // Before anything here is opened or tried.
    let descriptors = process::descriptors();
    let mut said = seen();
    said["arguments"] = json!(words);
    said["descriptors"] = descriptors;
    let mut line = said.to_string();
    line.push('\n');
    if std::io::stdout().write_all(line.as_bytes()).is_err() {
        return ExitCode::from(99);
    }
    match words[..] {
        [_, "end", code] => ExitCode::from(code.parse().unwrap_or(98)),
        [_, "wait", ..] => loop {
            std::thread::sleep(std::time::Duration::from_mins(1));
        },
        _ => ExitCode::SUCCESS,
    }
}

fn seen() -> Value {
    json!({
        "pid": std::process::id(),
        "environment": process::environment(),
        "directory": process::directory(),
        "status": process::status(),
        "stat": process::stat(),
        "limits": process::limits(),
        "namespaces": process::namespaces(),
        "names": process::names(),
        "priority of io": process::io_priority(),
        "ids": files::texts(&["/proc/self/uid_map", "/proc/self/gid_map", "/proc/self/setgroups"]),
        "self": files::texts(&[
            "/proc/self/cgroup",
            "/proc/self/personality",
            "/proc/self/oom_score_adj",
            "/proc/self/timens_offsets",
            "/proc/self/coredump_filter",
            "/proc/self/attr/current",
            "/proc/self/loginuid",
        ]),
        "mounts": files::lines("/proc/self/mountinfo"),
        "devices": files::tree("/dev"),
        "root": files::tree("/made"),
        "top": files::entries("/"),
        "sysctls": files::texts(files::SYSCTLS),
        "interfaces": files::interfaces(),
        "keyring": process::keyring(),
        "terminal": terminal::facts(),
        "attempts": attempts::all(),
    })
}
