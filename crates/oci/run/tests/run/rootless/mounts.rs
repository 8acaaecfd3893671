//! What of the host's a user's container has.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use orlop_testkit::assert_contains;
use serde_json::{Value, json};

use crate::rootless::user::{out, refusal, user};

fn also(config: &mut Value, mount: Value) {
    config["mounts"].as_array_mut().unwrap().push(mount);
}

#[test]
fn devices_are_the_hosts() {
    let user = user!();
    let script = "stat -c '%t %T' /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty; \
                  echo x > /dev/null && readlink /dev/fd && readlink /dev/ptmx";
    let said = out(user.run(&user.config(&["sh", "-c", script])));
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "1 3",
            "1 5",
            "1 7",
            "1 8",
            "1 9",
            "5 0",
            "/proc/self/fd",
            "pts/ptmx"
        ]
    );
    let mut config = user.config(&["stat", "-c", "%t %T", "/dev/kmsg"]);
    config["linux"]["devices"] =
        json!([{ "path": "/dev/kmsg", "type": "c", "major": 1, "minor": 11 }]);
    assert_eq!(out(user.run(&config)), "1 b\n");
    config["linux"]["devices"][0]["path"] = "/dev/not-there".into();
    let said = refusal(user.run(&config));
    assert!(said.contains("/dev/not-there"), "{said}");
}

#[test]
fn volumes_are_bound_with_their_options() {
    let user = user!();
    let volume = user.dir("volume");
    fs::write(volume.join("file"), "content\n").unwrap();
    let script = "cat /tmp/one/file; echo x > /tmp/one/made && echo made; echo x > /tmp/two/made || echo refused";
    let mut config = user.config(&["sh", "-c", script]);
    also(
        &mut config,
        json!({ "destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": [] }),
    );
    for (to, option) in [("/tmp/one", "rw"), ("/tmp/two", "ro")] {
        also(
            &mut config,
            json!({
                "destination": to, "type": "bind", "source": volume, "options": ["rbind", option],
            }),
        );
    }
    assert_eq!(out(user.run(&config)), "content\nmade\nrefused\n");
    also(
        &mut config,
        json!({
            "destination": "/etc", "type": "bind", "source": "/nowhere", "options": ["rbind"],
        }),
    );
    let said = refusal(user.run(&config));
    assert_contains!(said, "mounts[", "/nowhere: no such file or directory");
}

/// What only the host's root may read stays so.
#[test]
fn a_volume_gives_no_rights() {
    let user = user!();
    let secret = user.scratch.subdir("secret").join("file");
    fs::write(&secret, "secret\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let mut config = user.config(&["cat", "/tmp/file"]);
    also(
        &mut config,
        json!({
            "destination": "/tmp", "type": "bind", "source": secret.parent().unwrap(), "options": ["rbind"],
        }),
    );
    let said = user.run(&config);
    assert!(
        said.code == Some(1) && said.err.contains("Permission denied"),
        "{said:?}"
    );
}

#[test]
fn what_is_hidden_is_copied_by_its_user() {
    let user = user!();
    fs::write(user.rootfs.join("etc/file"), "content\n").unwrap();
    let mut config = user.config(&["cat", "/etc/file"]);
    also(
        &mut config,
        json!({
            "destination": "/etc", "type": "tmpfs", "source": "tmpfs", "options": ["tmpcopyup"],
        }),
    );
    assert_eq!(out(user.run(&config)), "content\n");
}

#[test]
fn cgroups_are_seen_where_there_are_none_of_ones_own() {
    let user = user!();
    for namespace in [false, true] {
        let mut config = user.config(&["sh", "-c", "ls /sys/fs/cgroup | grep -c ."]);
        let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
        namespaces.retain(|it| it["type"] != "cgroup");
        if namespace {
            namespaces.push(json!({ "type": "cgroup" }));
        }
        also(
            &mut config,
            json!({
                "destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["ro"],
            }),
        );
        let said = out(user.run(&config));
        assert!(said.trim().parse::<u32>().unwrap() > 0, "{said}");
    }
}
