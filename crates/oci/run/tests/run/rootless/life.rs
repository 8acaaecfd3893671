//! A user's containers from `spec` to `delete`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use orlop_testkit::{assert_contains, machine, skip_unless};
use serde_json::{Value, json};

use crate::rootless::user::{ID, User, ended, out, refusal, user, works};

#[test]
fn a_user_is_root_in_a_container_and_nowhere_else() {
    let user = user!();
    let script = "id; cat /proc/self/uid_map; cat /proc/self/setgroups; echo x > /tmp/made";
    let said = out(user.run(&with_writable_root(user.config(&["sh", "-c", script]))));
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], "uid=0 gid=0", "{said}");
    let map: Vec<_> = lines[1].split_whitespace().collect();
    assert_eq!(map, ["0", &ID.to_string(), "1"], "{said}");
    assert_eq!(lines[2], "deny", "{said}");
    let made = fs::metadata(user.rootfs.join("tmp/made")).unwrap();
    assert_eq!((made.uid(), made.gid()), (ID, ID));
}

fn with_writable_root(mut config: Value) -> Value {
    config["root"]["readonly"] = false.into();
    config
}

/// A container that waits for its start.
fn created(user: &User) -> String {
    let (id, bundle) = user.bundle(&user.config(&["sleep", "60"]));
    let mut create = user.command();
    create.args(["create", "--bundle"]).arg(&bundle).arg(&id);
    out(ended(&mut create));
    id
}

#[test]
fn all_commands_know_a_users_container() {
    let user = user!();
    let id = created(&user);
    let state = || -> Value { serde_json::from_str(&out(user.says(&["state", &id]))).unwrap() };
    assert_eq!(state()["status"], "created");
    out(user.says(&["start", &id]));
    assert_eq!(state()["status"], "running");
    let listed = out(user.says(&["list"]));
    assert_contains!(listed, &id, &format!("#{ID}"));
    let stats = out(user.says(&["events", "--stats", &id]));
    assert!(stats.starts_with("{\"type\":\"stats\""), "{stats}");
    out(user.says(&["kill", &id, "KILL"]));
    orlop_testkit::block_until!(
        Duration::from_secs(10) * machine::patience(),
        state()["status"] == "stopped",
        "{}",
        state()
    );
    out(user.says(&["delete", &id]));
    assert!(refusal(user.says(&["state", &id])).contains("does not exist"));
}

/// All namespaces are entered, by way of the users; what is told of processes is right.
#[test]
fn who_joins_is_one_of_the_containers_processes() {
    let user = user!();
    let id = user.start(&user.config(&["sleep", "60"]));
    let state: Value = serde_json::from_str(&out(user.says(&["state", &id]))).unwrap();
    let script = "for ns in user pid mnt uts ipc; do readlink /proc/self/ns/$ns; done; \
                  test -e /proc/1/exe && cat /proc/1/comm; id";
    let said = out(user.says(&["exec", &id, "sh", "-c", script]));
    let lines: Vec<_> = said.lines().collect();
    for (line, name) in lines.iter().zip(["user", "pid", "mnt", "uts", "ipc"]) {
        let of_init = fs::read_link(format!("/proc/{}/ns/{name}", state["pid"])).unwrap();
        assert_eq!(*line, of_init.to_str().unwrap());
    }
    assert_eq!(lines[5..], ["sleep", "uid=0 gid=0"], "{said}");
    let said = user.says(&["exec", &id, "sh", "-c", "exit 7"]);
    assert_eq!(said.code, Some(7), "{said:?}");
    let pid_file = user.scratch.subdir("run").join("pid");
    let mut command = user.command();
    command
        .args(["exec", "--detach", "--pid-file"])
        .arg(&pid_file);
    out(ended(command.args([&id, "sleep", "60"])));
    let pid = fs::read_to_string(&pid_file).unwrap();
    assert_eq!(
        fs::read_to_string(format!("/proc/{pid}/comm")).unwrap(),
        "sleep\n"
    );
}

/// Nobody but root looks into a process that still holds what is the host's.
#[test]
fn what_waits_for_its_start_shows_its_user_nothing() {
    let user = user!();
    let id = created(&user);
    let state: Value = serde_json::from_str(&out(user.says(&["state", &id]))).unwrap();
    let mut look = Command::new("ls");
    look.arg(format!("/proc/{}/fd", state["pid"]))
        .uid(ID)
        .gid(ID);
    refusal(ended(&mut look));
    let said = refusal(user.says(&["exec", &id, "true"]));
    assert!(said.contains("start the container first"), "{said}");
}

#[test]
fn states_are_in_the_users_own_directory_which_nobody_cleans_up() {
    let user = user!();
    let id = user.start(&user.config(&["sleep", "60"]));
    let dir = user.scratch.subdir("run").join("orlop-run");
    assert!(dir.join(&id).join("state.json").exists());
    let look = fs::metadata(&dir).unwrap();
    assert_eq!((look.mode() & 0o7777, look.uid()), (0o1700, ID));
}

#[test]
fn without_a_directory_of_its_own_a_user_is_told_to_give_one() {
    let user = user!();
    let (id, bundle) = user.bundle(&user.config(&["true"]));
    let mut command = user.command();
    command.env_remove("XDG_RUNTIME_DIR");
    command.args(["run", "--bundle"]).arg(&bundle).arg(&id);
    let said = refusal(ended(&mut command));
    assert!(said.contains("/run/orlop-run"), "{said}");
    assert_contains!(said, "set --root to a directory that you own");
    let mut command = user.command();
    command.env("XDG_RUNTIME_DIR", "/proc/nowhere");
    command.args(["run", "--bundle"]).arg(&bundle).arg(&id);
    let said = refusal(ended(&mut command));
    assert_contains!(
        said,
        "the path in $XDG_RUNTIME_DIR must be writable by the user"
    );
}

#[test]
fn hooks_and_clocks_are_a_users_too() {
    let user = user!();
    let mut config = user.config(&["cat", "/proc/self/timens_offsets"]);
    let mark = user.dir("marks");
    let hook = |stage: &str| {
        json!([{ "path": "/bin/sh", "args": ["sh", "-c", format!("id -u > {}/{stage}", mark.display())],
                 "env": ["PATH=/usr/bin:/bin"] }])
    };
    config["hooks"] = json!({
        "createRuntime": hook("createRuntime"), "createContainer": hook("createContainer"),
        "poststop": hook("poststop"),
    });
    if std::path::Path::new("/proc/self/ns/time").exists() {
        let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
        namespaces.push(json!({ "type": "time" }));
        config["linux"]["timeOffsets"] = json!({ "boottime": { "secs": 4711, "nanosecs": 0 } });
        let said = out(user.run(&config));
        let words: Vec<_> = said.split_whitespace().collect();
        assert_eq!(words[3..5], ["boottime", "4711"], "{said}");
    } else {
        out(user.run(&config));
    }
    let of = |stage: &str| fs::read_to_string(mark.join(stage)).unwrap();
    assert_eq!(of("createRuntime").trim(), ID.to_string());
    // In the container's namespaces already.
    assert_eq!(of("createContainer").trim(), "0");
    assert_eq!(of("poststop").trim(), ID.to_string());
}

#[test]
fn a_user_has_a_terminal() {
    skip_unless!(works().and_then(|()| machine::has_program("script")));
    let user = User::new();
    let look = "test -t 0 && readlink /proc/self/fd/0 && stat -c %t /dev/console";
    let mut config = user.config(&["sh", "-c", look]);
    config["process"]["terminal"] = true.into();
    let (id, bundle) = user.bundle(&config);
    let mut command = Command::new("script");
    let run = format!(
        "{} run --bundle {} {id}",
        user.runtime.display(),
        bundle.display()
    );
    command.args(["-qec", &run, "/dev/null"]).uid(ID).gid(ID);
    command.env("XDG_RUNTIME_DIR", user.scratch.subdir("run"));
    let said = out(ended(&mut command));
    assert!(said.contains("/dev/pts/0") && said.contains("88"), "{said}");
}

/// Who entered users of its own before is root to them, whether or not it has mounts of its own, too.
#[test]
fn root_of_a_user_namespace_needs_no_other() {
    let user = user!();
    let mut config = user.config(&["sleep", "60"]);
    let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
    namespaces.retain(|it| it["type"] != "user");
    for maps in ["uidMappings", "gidMappings"] {
        config["linux"].as_object_mut().unwrap().remove(maps);
    }
    for flags in ["-Ur", "-Urm"] {
        let (id, bundle) = user.bundle(&config);
        let script = format!(
            "\"$0\" run --detach --bundle {} {id} > /dev/null 2>&1 && \"$0\" exec {id} id; \"$0\" delete --force {id}",
            bundle.display()
        );
        let mut command = Command::new("unshare");
        command
            .args([flags, "sh", "-c", &script])
            .arg(&user.runtime);
        command.uid(ID).gid(ID).env("USER", "somebody");
        command.env("XDG_RUNTIME_DIR", user.scratch.subdir("run"));
        assert_eq!(out(ended(&mut command)), "uid=0 gid=0\n", "{flags}");
        assert!(user.scratch.subdir("run").join("orlop-run").is_dir());
    }
}
