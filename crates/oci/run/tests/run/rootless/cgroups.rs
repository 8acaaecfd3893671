//! Cgroups of a user's containers: none, or what was given to the user.

use std::process::Command;

use orlop_testkit::{assert_contains, machine, skip_unless};
use serde_json::json;

use crate::rootless::user::{ID, User, ended, out, refusal, user, works};

/// On version 2 whoever runs the tests may be in a cgroup whose parent is root's alone, as here.
#[test]
fn limits_take_a_cgroup_and_nothing_else_does() {
    let user = user!();
    out(user.run(&user.config(&["true"])));
    let mut config = user.config(&["true"]);
    config["linux"]["resources"] = json!({ "pids": { "limit": 20 } });
    let said = refusal(user.run(&config));
    let words = if machine::is_cgroup_v2() {
        "rootless needs no limits + no cgrouppath when no permission is granted for cgroups"
    } else {
        "cannot set pids limit: container could not join or create cgroup"
    };
    assert!(said.contains(words), "{said}");
    let mut config = user.config(&["true"]);
    config["linux"]["cgroupsPath"] = format!("/{}", user.scratch.id()).into();
    let said = refusal(user.run(&config));
    assert_contains!(said, "mkdir", "permission denied");
}

#[test]
fn without_a_cgroup_what_needs_one_says_so() {
    let user = user!();
    let id = user.start(&user.config(&["sleep", "60"]));
    for verb in ["pause", "ps"] {
        let said = refusal(user.says(&[verb, &id]));
        let warning = format!("{verb} may fail if you don't have the full access to cgroups");
        assert!(said.contains(&warning), "{said}");
        assert_contains!(said, "cgroups not configured for container");
    }
    let said = refusal(user.says(&["kill", "--all", &id, "USR1"]));
    assert_contains!(said, "cgroups not configured for container");
    let said = refusal(user.says(&["update", "--pids-limit", "20", &id]));
    assert_contains!(said, "container could not join or create cgroup");
}

/// A cgroup of version 2 that is the user's, which has itself in it; gone with it.
struct Delegated<'a> {
    user: &'a User,
}

impl Delegated<'_> {
    /// Runs a script as the user, who is in the cgroup, where only version 2 is mounted; `$0` is the runtime.
    fn run(&self, script: &str) -> crate::rootless::user::Said {
        let id = self.user.scratch.id();
        let place = format!(
            "{ONLY_VERSION_2}
             mkdir -p /sys/fs/cgroup/{id}/own && echo $$ > /sys/fs/cgroup/{id}/own/cgroup.procs || exit 90
             chown -R {ID}:{ID} /sys/fs/cgroup/{id}
             exec setpriv --reuid {ID} --regid {ID} --clear-groups sh -ec '{script}' \"$0\""
        );
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", &place])
            .arg(&self.user.runtime);
        command.env("XDG_RUNTIME_DIR", self.user.scratch.subdir("run"));
        ended(&mut command)
    }
}

impl Drop for Delegated<'_> {
    fn drop(&mut self) {
        let id = self.user.scratch.id();
        let script = format!(
            "{ONLY_VERSION_2}
             echo 1 > /sys/fs/cgroup/{id}/cgroup.kill
             while ! find /sys/fs/cgroup/{id} -depth -type d -exec rmdir '{{}}' + ; do
                 tries=x$tries; test ${{#tries}} -lt 100 || break; sleep 0.05
             done"
        );
        let _ = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .status();
    }
}

const ONLY_VERSION_2: &str = "
    if ! test -e /sys/fs/cgroup/cgroup.procs; then
        for point in $(awk '$5 ~ \"^/sys/fs/cgroup/\" {print $5}' /proc/self/mountinfo); do umount $point; done
        umount /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup || exit 90
    fi";

#[test]
fn a_cgroup_that_is_the_users_is_used() {
    skip_unless!(works().and_then(|()| machine::has_program("setpriv")));
    let user = User::new();
    let (id, bundle) = user.bundle(&user.config(&["sleep", "60"]));
    let delegated = Delegated { user: &user };
    let script = format!(
        "\"$0\" run --detach --bundle {} {id} > /dev/null 2>&1
         \"$0\" exec {id} cat /proc/self/cgroup | grep ^0:
         \"$0\" ps --format json {id} 2>/dev/null
         \"$0\" pause {id} 2>/dev/null
         \"$0\" list | grep -o paused
         \"$0\" resume {id} 2>/dev/null
         \"$0\" delete --force {id}
         ls /sys/fs/cgroup/{} | grep -c {id} || true",
        bundle.display(),
        user.scratch.id(),
    );
    let said = out(delegated.run(&script));
    let lines: Vec<_> = said.lines().collect();
    // Where `spec` has found version 2 the cgroup is all that is seen of the hierarchy.
    let seen = if machine::is_cgroup_v2() {
        "0::/".to_owned()
    } else {
        format!("0::/{}/{id}", user.scratch.id())
    };
    assert_eq!(lines[0], seen, "{said}");
    let pids: Vec<u32> = serde_json::from_str(lines[1]).unwrap();
    assert_eq!(pids.len(), 1, "{said}");
    assert_eq!(lines[2..], ["paused", "0"], "{said}");
}

/// Of version 1 the user has a directory in each hierarchy.
#[test]
fn limits_are_set_in_cgroups_of_version_1_that_are_the_users() {
    skip_unless!(works());
    if machine::is_cgroup_v2() {
        orlop_testkit::skip!("cgroup version 2");
    }
    let user = User::new();
    let own = Own::new(user.scratch.id());
    let mut config = user.config(&["sh", "-c", "grep pids /proc/self/cgroup"]);
    config["linux"]["cgroupsPath"] = format!("/{}/container", user.scratch.id()).into();
    config["linux"]["resources"] = json!({ "pids": { "limit": 20 } });
    let said = out(user.run(&config));
    assert_contains!(said, &format!("/{}/container", user.scratch.id()));
    config["process"]["args"] = json!(["sleep", "60"]);
    let id = user.start(&config);
    let limit = std::fs::read_to_string(own.pids().join("container/pids.max")).unwrap();
    assert_eq!(limit.trim(), "20");
    out(user.says(&["update", "--pids-limit", "30", &id]));
    let limit = std::fs::read_to_string(own.pids().join("container/pids.max")).unwrap();
    assert_eq!(limit.trim(), "30");
    out(user.says(&["exec", &id, "true"]));
    out(user.says(&["delete", "--force", &id]));
    assert!(!own.pids().join("container").exists());
}

/// Directories in all hierarchies of version 1 that are the user's; gone with it.
struct Own(Vec<std::path::PathBuf>);

impl Own {
    fn new(name: &str) -> Self {
        let mut made = Self(Vec::new());
        for entry in std::fs::read_dir("/sys/fs/cgroup").unwrap() {
            let point = entry.unwrap().path();
            if point.is_symlink() || !point.join("cgroup.procs").exists() {
                continue;
            }
            let dir = point.join(name);
            std::fs::create_dir(&dir).unwrap();
            made.0.push(dir.clone());
            for file in ["cpuset.cpus", "cpuset.mems"] {
                if let Ok(value) = std::fs::read_to_string(point.join(file)) {
                    std::fs::write(dir.join(file), value.trim()).unwrap();
                }
            }
            let status = Command::new("chown")
                .args(["-R", &format!("{ID}:{ID}")])
                .arg(&dir)
                .status();
            assert!(status.unwrap().success());
        }
        made
    }

    fn pids(&self) -> &std::path::Path {
        let is_pids = |dir: &&std::path::PathBuf| dir.join("pids.max").exists();
        self.0.iter().find(is_pids).unwrap()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let script =
            "while read pid; do kill -9 $pid; done < \"$0/container/cgroup.procs\"; sleep 0.2";
        let _ = Command::new("sh")
            .args(["-c", script])
            .arg(self.pids())
            .status();
        for dir in &self.0 {
            let _ = std::fs::remove_dir(dir.join("container"));
            let _ = std::fs::remove_dir(dir);
        }
    }
}
