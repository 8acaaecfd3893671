//! What is told with `--debug`.

use std::fs;

use serde_json::{Value, json};

use crate::manners::out;
use crate::rig::{Rig, Said, ended, rig};

/// What runc's own tests look for, and the steps in between.
const OF_CREATE: [&str; 8] = [
    "nsexec container setup",
    "child process in init()",
    "mounted root.path",
    "mounts[0]: proc",
    "created the device nodes",
    "createContainer hooks",
    "pivot_root",
    "init: closing the pipe to signal completion",
];

fn configured(rig: &Rig) -> Value {
    let mut config = rig.config(&["true"]);
    config["hooks"] = json!({ "createContainer": [{ "path": "/bin/true" }] });
    config
}

fn run(rig: &Rig, flags: &[&str], config: &Value) -> Said {
    let (id, bundle) = rig.bundle(config);
    let mut command = rig.command();
    command.args(flags).args(["run", "--bundle"]).arg(bundle);
    ended(command.arg(id))
}

/// All words, in this order.
fn follow(text: &str, words: &[&str]) {
    let mut rest = text;
    for word in words {
        let at = rest
            .find(word)
            .unwrap_or_else(|| panic!("{word} is missing, or comes too early: {text}"));
        rest = &rest[at..];
    }
}

#[test]
fn steps_are_told_on_standard_error() {
    let rig = rig!();
    let said = run(&rig, &["--debug"], &configured(&rig));
    assert!(said.ok, "{said:?}");
    follow(&said.err, &OF_CREATE);
    assert!(
        said.err.lines().all(|line| line.contains(" level=debug ")),
        "{}",
        said.err
    );
    let silent = run(&rig, &[], &configured(&rig));
    assert_eq!((silent.ok, silent.err.as_str()), (true, ""));
}

#[test]
fn steps_are_told_in_a_file_as_text_or_json() {
    let rig = rig!();
    for format in ["text", "json"] {
        let log = rig.outside("log").join(format);
        let path = log.to_str().unwrap();
        let flags = ["--debug", "--log", path, "--log-format", format];
        let said = run(&rig, &flags, &configured(&rig));
        assert_eq!((said.ok, said.err.as_str()), (true, ""));
        let told = fs::read_to_string(&log).unwrap();
        follow(&told, &OF_CREATE);
        for line in told.lines() {
            if format == "json" {
                let line: Value = serde_json::from_str(line).unwrap();
                assert_eq!(line["level"], "debug", "{line}");
            } else {
                assert!(line.contains(" level=debug "), "{line}");
            }
        }
    }
}

#[test]
fn who_joins_is_followed_as_well() {
    let rig = rig!();
    let container = rig.start(&rig.config(&["sleep", "60"]));
    let words = ["--debug", "exec", &container.id, "true"];
    let said = ended(rig.command().args(words));
    let err = said.err.clone();
    out(said);
    follow(
        &err,
        &[
            "level=debug",
            "nsexec container setup",
            "child process in init()",
            "setns into the container's namespaces",
            "setns_init: about to exec",
        ],
    );
}
