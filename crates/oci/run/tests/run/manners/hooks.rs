//! Hooks that run in the container.

use orlop_testkit::assert_contains;
use orlop_testkit::process::status;
use serde_json::json;

use crate::manners::{out, refusal};
use crate::rig::rig;

#[test]
fn a_hook_that_is_given_no_environment_has_that_of_the_process() {
    let rig = rig!();
    let mut config = rig.config(&["true"]);
    config["process"]["env"] = json!(["PATH=/bin", "ONE=two"]);
    let look = "test \"$ONE\" = two && test -n \"$HOME\"";
    config["hooks"] = json!({
        "startContainer": [{ "path": "/bin/sh", "args": ["sh", "-c", look] }],
    });
    out(rig.run(&config));
}

#[test]
fn of_hooks_that_fail_it_is_said_which_and_how() {
    let rig = rig!();
    let shell = |script: &str| json!({ "path": "/bin/sh", "args": ["sh", "-c", script] });
    for (script, how) in [
        ("exit 3", "exit status 3"),
        ("kill -9 $$", "killed by signal 9"),
        ("mkdir /tmp/made", "bad system call"),
    ] {
        let mut config = rig.config(&["true"]);
        config["linux"]["seccomp"] = json!({
            "defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [{ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_KILL_PROCESS" }],
        });
        config["process"]["rlimits"] = json!([{ "type": "RLIMIT_CORE", "soft": 0, "hard": 0 }]);
        config["hooks"] = json!({ "startContainer": [shell("true"), shell(script)] });
        let said = refusal(rig.run(&config));
        assert_contains!(said, "error running startContainer hook #1: ");
        assert!(said.contains(how), "{said}");
    }
}

#[test]
fn hooks_in_the_container_write_files_with_the_callers_umask() {
    let rig = rig!();
    let mut config = rig.config(&["stat", "-c", "%a", "/made"]);
    // These hooks start in the container's root, before it is entered.
    config["hooks"] = json!({
        "createContainer": [{ "path": "/bin/sh", "args": ["sh", "-c", ": > made"] }],
    });
    assert_eq!(out(rig.run(&config)).trim(), "644");
}

#[test]
fn what_hooks_print_is_in_the_error_and_not_in_the_containers_output() {
    let rig = rig!();
    let hook = |script: &str| json!([{ "path": "/bin/sh", "args": ["sh", "-c", script] }]);
    let mut config = rig.config(&["sh", "-c", "echo the program"]);
    config["hooks"] = json!({
        "createContainer": hook("echo loud; echo louder >&2"),
        "startContainer": hook("echo loud; echo louder >&2"),
    });
    assert_eq!(out(rig.run(&config)).trim(), "the program");
    config["hooks"] = json!({ "createContainer": hook("echo the reason; exit 3") });
    let said = refusal(rig.run(&config));
    assert_contains!(said, "hook #0: exit status 3, output: the reason");
}

#[test]
fn hooks_and_the_process_may_run_on_all_processors() {
    let rig = rig!();
    let look = |to: &str| format!("grep Cpus_allowed_list /proc/self/status >> {to}");
    let there = rig.outside("there").join("noted");
    let there = there.to_str().unwrap();
    let mut config = rig.config(&["sh", "-c", &format!("{}; cat /within", look("/within"))]);
    let hook = |to: &str| json!([{ "path": "/bin/sh", "args": ["sh", "-c", look(to)] }]);
    config["hooks"] = json!({
        "createRuntime": hook(there),
        "createContainer": hook(there),
        "startContainer": hook("/within"),
        "poststart": hook(there),
    });
    let said = out(rig.run(&config));
    let ours = status(std::process::id(), "Cpus_allowed_list:");
    let noted = std::fs::read_to_string(there).unwrap();
    let all: Vec<&str> = said.lines().chain(noted.lines()).collect();
    assert_eq!(all, vec![ours.as_str(); 5], "{said}{noted}");
}
