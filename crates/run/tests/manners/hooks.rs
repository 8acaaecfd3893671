//! Hooks that run in the container.

use orlop_testkit::skip_unless;
use serde_json::json;

use crate::rig::{Rig, works};
use crate::{out, refusal};

#[test]
fn a_hook_that_is_given_no_environment_has_that_of_the_process() {
    skip_unless!(works());
    let rig = Rig::new();
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
    skip_unless!(works());
    let rig = Rig::new();
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
        assert!(
            said.contains("error running startContainer hook #1: "),
            "{said}"
        );
        assert!(said.contains(how), "{said}");
    }
}
