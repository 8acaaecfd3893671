//! Commands, and what becomes of containers by them.

use std::time::{Duration, Instant};

use orlop_testkit::{assert_contains, machine};
use serde_json::{Value, json};

use crate::manners::{out, refusal};
use crate::rig::{Rig, ended, rig};

#[test]
fn a_container_that_was_not_started_ends_when_it_is_asked_to() {
    let rig = rig!();
    for signal in ["TERM", "INT", "HUP"] {
        let container = rig.create(&rig.config(&["sleep", "60"])).unwrap();
        out(ended(rig.command().args(["kill", &container.id, signal])));
        let deadline = Instant::now() + Duration::from_secs(5) * machine::patience();
        loop {
            let state = out(ended(rig.command().args(["state", &container.id])));
            let state: Value = serde_json::from_str(&state).unwrap();
            if state["status"] == "stopped" {
                break;
            }
            assert!(Instant::now() < deadline, "{signal}: {state}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Handlers that are there until then are none of the program's, and what it is to ignore it does.
#[test]
fn a_program_has_signals_in_the_usual_way() {
    let rig = rig!();
    let (id, bundle) =
        rig.bundle(&rig.config(&["grep", "-E", "SigCgt|SigIgn", "/proc/self/status"]));
    let mut command = std::process::Command::new("sh");
    let runtime = rig.command();
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]);
    command.arg(runtime.get_program()).args(runtime.get_args());
    command.args(["run", "--bundle"]).arg(bundle).arg(id);
    let status = out(ended(&mut command));
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
    };
    assert_eq!(of("SigIgn:") & 1, 1, "{status}");
    assert_eq!(of("SigCgt:"), 0, "{status}");
}

/// The number is written down while the process still works, and is nobody's to read when that fails.
#[test]
fn a_container_that_cannot_be_made_leaves_no_number() {
    let rig = rig!();
    let (id, bundle) = rig.bundle(&rig.config(&["missing"]));
    let mut create = rig.command();
    create.arg("create").arg("--bundle").arg(&bundle);
    create.arg("--pid-file").arg(bundle.join("pid")).arg(&id);
    let said = refusal(ended(&mut create));
    assert!(said.contains("missing"), "{said}");
    let left = std::fs::read_dir(&bundle).unwrap();
    let left: Vec<_> = left.map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["config.json"]);
}

#[test]
fn a_process_may_come_by_a_pipe() {
    let rig = rig!();
    let container = rig.start(&rig.config(&["sleep", "60"]));
    let process = json!({ "args": ["pwd"], "cwd": "/tmp", "env": ["PATH=/bin"] });
    let runtime = rig.command();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "echo \"$PROCESS\" | \"$0\" \"$@\" | cat"]);
    command.env("PROCESS", process.to_string());
    command.arg(runtime.get_program()).args(runtime.get_args());
    command.args(["exec", "--process", "/dev/stdin", &container.id]);
    assert_eq!(out(ended(&mut command)).trim(), "/tmp");
}

#[test]
fn a_cgroup_that_is_not_there_is_not_joined() {
    let rig = rig!();
    let container = rig.start(&rig.config(&["sleep", "60"]));
    let said = refusal(container.exec(&["--cgroup", "nowhere"], &["true"]));
    assert_contains!(said, " adding pid ", "no such file or directory");
}

/// The specification wants a process by the time of the start.
#[test]
fn without_a_process_a_container_is_created_and_not_started() {
    let rig = rig!();
    let mut config = rig.config(&["true"]);
    config.as_object_mut().unwrap().remove("process");
    let container = rig.create(&config).unwrap();
    let state = || -> Value {
        let state = out(ended(rig.command().args(["state", &container.id])));
        serde_json::from_str(&state).unwrap()
    };
    assert_eq!(state()["status"], "created");
    let said = refusal(ended(rig.command().args(["start", &container.id])));
    assert_contains!(said, "process property must not be empty");
    assert_eq!(state()["status"], "created");
    out(ended(rig.command().args(["delete", &container.id])));
    let said = refusal(rig.run(&config));
    assert_contains!(said, "process property must not be empty");
}

#[test]
fn help_has_the_form_of_runcs() {
    let rig = Rig::new();
    let help = out(ended(rig.command().args(["create", "--help"])));
    let mut lines = help.lines();
    assert_eq!(lines.next(), Some("NAME:"));
    assert!(
        lines
            .next()
            .is_some_and(|it| it.contains("orlop-run create - ")),
        "{help}"
    );
    assert!(help.contains("USAGE:\n   orlop-run create"), "{help}");
}
