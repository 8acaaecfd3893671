//! What a process has, and what one that joins has of the container's.

use orlop_testkit::{assert_contains, skip_unless};
use serde_json::json;

use crate::manners::{out, refusal};
use crate::rig::{self, Rig, rig, works};

#[test]
fn an_environment_whose_last_home_is_empty_gets_one() {
    let rig = rig!();
    let mut config = rig.config(&["sh", "-c", "echo $HOME"]);
    config["process"]["env"] = json!(["PATH=/bin", "HOME=/override", "HOME="]);
    assert_eq!(out(rig.run(&config)).trim(), "/");
}

#[test]
fn who_joins_is_scheduled_as_the_container_is() {
    let rig = rig!();
    let mut config = rig.config(&["sleep", "60"]);
    config["process"]["scheduler"] = json!({ "policy": "SCHED_BATCH", "nice": 3 });
    config["process"]["ioPriority"] = json!({ "class": "IOPRIO_CLASS_BE", "priority": 6 });
    config["process"]["rlimits"] = json!([{ "type": "RLIMIT_NOFILE", "soft": 77, "hard": 88 }]);
    config["linux"]["personality"] = json!({ "domain": "LINUX32" });
    let container = rig.start(&config);
    let process = json!({ "args": ["sh", "-c", LOOK], "cwd": "/", "env": ["PATH=/bin"] });
    let file = rig.outside("process").join("process.json");
    std::fs::write(&file, process.to_string()).unwrap();
    let by_args = out(container.exec(&[], &["sh", "-c", LOOK]));
    let by_file = out(container.exec(&["--process", file.to_str().unwrap()], &[]));
    for said in [by_args, by_file] {
        for word in ["policy 3\n", "best-effort: prio 6", "files 77", "i686"] {
            assert!(said.contains(word), "{word}: {said}");
        }
    }
}

const LOOK: &str = "set -- $(cat /proc/self/stat); shift 40; echo policy $1; /bin/busybox ionice -p $$; echo files $(ulimit -n); \
                    /bin/busybox uname -m";

#[test]
fn memory_is_placed_for_who_joins_as_well() {
    skip_unless!(works().and_then(|()| has_nodes()));
    let rig = Rig::new();
    let mut config = rig.config(&["sleep", "60"]);
    config["linux"]["memoryPolicy"] = json!({ "mode": "MPOL_BIND", "nodes": "0" });
    let container = rig.start(&config);
    let maps = out(container.exec(&[], &["cat", "/proc/self/numa_maps"]));
    assert!(
        maps.lines()
            .next()
            .is_some_and(|line| line.contains(" bind:0 ")),
        "{maps}"
    );
}

fn has_nodes() -> Result<(), String> {
    let there = std::path::Path::new("/proc/self/numa_maps").exists();
    there
        .then_some(())
        .ok_or_else(|| "no memory policies here".to_owned())
}

#[test]
fn what_is_wrong_with_a_memory_policy_is_said_in_runcs_words() {
    let rig = rig!();
    for (mode, nodes, words) in [
        ("MPOL_DEFAULT", "0-7", "mode requires 0 nodes but got 8"),
        ("MPOL_BIND", "0-9876543210", "invalid memory policy node"),
    ] {
        let mut config = rig.config(&["true"]);
        config["linux"]["memoryPolicy"] = json!({ "mode": mode, "nodes": nodes });
        let said = refusal(rig.run(&config));
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_limit_of_files_is_that_of_the_program_and_not_of_what_makes_it() {
    let rig = rig!();
    let source = rig.outside("source");
    let mut config = rig.config(&["sh", "-c", "ulimit -n; ulimit -Hn"]);
    for number in 0..40 {
        rig::also(&mut config, rig::volume(&source, &format!("/tmp/{number}")));
    }
    config["process"]["rlimits"] = json!([
        { "type": "RLIMIT_NOFILE", "soft": 10, "hard": 20 },
        { "type": "RLIMIT_CORE", "soft": 0, "hard": 0 },
    ]);
    assert_eq!(out(rig.run(&config)), "10\n20\n");
    crate::manners::namespaces::with_users(&rig, &mut config);
    assert_eq!(out(rig.run(&config)), "10\n20\n");
}

/// The kernel is asked where the process is, which profiles may forbid the process.
#[test]
fn a_profile_may_refuse_to_say_where_it_is() {
    let rig = rig!();
    let mut config = rig.config(&["cat", "/proc/self/comm"]);
    config["process"]["noNewPrivileges"] = false.into();
    config["linux"]["seccomp"] = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{ "names": ["getcwd"], "action": "SCMP_ACT_ERRNO" }],
    });
    assert_eq!(out(rig.run(&config)), "cat\n");
}

/// Compiled filters are kept. One in the form that named no compiler may be of one with a fault.
#[test]
fn a_kept_filter_of_another_compiler_is_not_used() {
    let rig = rig!();
    let mut config = rig.config(&["mkdir", "/tmp/made"]);
    let lenient = json!({ "defaultAction": "SCMP_ACT_ALLOW" });
    let strict = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO" }],
    });
    let kept = || {
        let files = std::fs::read_dir(rig.outside("state").join(".seccomp")).unwrap();
        files.map(|file| file.unwrap().path())
    };
    config["linux"]["seccomp"] = lenient;
    out(rig.run(&config));
    let file = std::fs::read(kept().next().expect("a filter is kept")).unwrap();
    let start = file.windows(8).position(|it| it == b"orlopbpf");
    let program = &file[start.expect("a program")..];

    std::fs::remove_dir(rig.root.join("tmp/made")).unwrap();
    config["linux"]["seccomp"] = strict.clone();
    assert_contains!(refusal(rig.run(&config)), "Operation not permitted");
    for file in kept() {
        std::fs::write(file, [strict.to_string().as_bytes(), program].concat()).unwrap();
    }
    assert_contains!(refusal(rig.run(&config)), "Operation not permitted");
}

#[test]
fn an_agent_that_is_not_there_is_told_of() {
    let rig = rig!();
    let mut config = rig.config(&["true"]);
    config["linux"]["seccomp"] = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "listenerPath": "/nowhere/agent.sock",
        "syscalls": [{ "names": ["mkdir"], "action": "SCMP_ACT_NOTIFY" }],
    });
    let said = refusal(rig.run(&config));
    assert_contains!(said, "failed to connect with seccomp agent");
}
