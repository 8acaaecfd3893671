//! Where mounts come from and what they are like.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use orlop_testkit::{skip, skip_unless};
use serde_json::{Value, json};

use crate::manners::namespaces::with_users;
use crate::manners::out;
use crate::rig::{self, Rig, also, ended, mount, rig, volume, works};

/// Sources below the root that earlier mounts of the container put there.
#[test]
fn what_is_bound_may_be_there_by_a_mount_of_the_container() {
    let rig = rig!();
    fs::create_dir(rig.root.join("mnt")).unwrap();
    let (outer, inner) = (rig.outside("outer"), rig.outside("inner"));
    fs::create_dir(outer.join("x")).unwrap();
    fs::write(inner.join("file"), "inner\n").unwrap();
    for users in [false, true] {
        let mut config = rig.config(&["cat", "/final/x/file"]);
        also(&mut config, volume(&outer, "/mnt"));
        also(&mut config, volume(&inner, "/mnt/x"));
        also(&mut config, volume(&rig.root.join("mnt"), "/final"));
        if users {
            with_users(&rig, &mut config);
        }
        assert_eq!(out(rig.run(&config)), "inner\n", "users: {users}");
        // As runc has it, a place may be named by its path on the host.
        let destination = rig.root.join("final");
        let last = config["mounts"].as_array_mut().unwrap().last_mut().unwrap();
        last["destination"] = destination.to_str().unwrap().into();
        assert_eq!(out(rig.run(&config)), "inner\n", "users: {users}");
    }
}

#[test]
fn mounts_are_listed_in_the_order_of_the_configuration() {
    let rig = rig!();
    let source = rig.outside("source");
    let mut config = rig.config(&["cat", "/proc/self/mountinfo"]);
    let wanted = ["/tmp/one", "/tmp/two", "/tmp/three", "/tmp/four"];
    for (number, place) in wanted.iter().enumerate() {
        let of = match number % 2 {
            0 => mount(place, "tmpfs", &["nosuid"]),
            _ => volume(&source, place),
        };
        also(&mut config, of);
    }
    let table = out(rig.run(&config));
    let listed: Vec<_> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .filter(|place| place.starts_with("/tmp/"))
        .collect();
    assert_eq!(listed, wanted, "{table}");
}

#[test]
fn a_tmpfs_has_the_mode_of_what_it_hides() {
    let rig = rig!();
    let hidden = rig.root.join("hidden");
    fs::create_dir(&hidden).unwrap();
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o710)).unwrap();
    let mut config = rig.config(&[
        "sh",
        "-c",
        "stat -c %a /hidden /new/place; cat /proc/mounts",
    ]);
    also(&mut config, mount("/hidden", "tmpfs", &["nosuid"]));
    also(&mut config, mount("/new/place", "tmpfs", &["nosuid"]));
    let said = out(rig.run(&config));
    assert!(said.starts_with("710\n1777\n"), "{said}");
    let told = |place: &str| said.lines().find(|line| line.contains(place)).unwrap();
    assert!(told(" /hidden ").contains("mode=710"), "{said}");
    assert!(!told(" /new/place ").contains("mode="), "{said}");
}

/// What a container without pivot_root would find below its root.
#[test]
fn without_pivoting_no_proc_of_the_host_is_left_in_reach() {
    let rig = rig!();
    let script = "/bin/busybox unshare -mrpf /bin/busybox mount -t proc none /proc";
    let mut config = rig.config(&["sh", "-c", script]);
    config["process"]["noNewPrivileges"] = false.into();
    for set in ["bounding", "effective", "permitted"] {
        let rights = config["process"]["capabilities"][set]
            .as_array_mut()
            .unwrap();
        rights.extend([json!("CAP_SETFCAP"), json!("CAP_SYS_ADMIN")]);
    }
    let (id, bundle) = rig.bundle(&config);
    let mut command = rig.command();
    command
        .args(["run", "--no-pivot", "--bundle"])
        .arg(bundle)
        .arg(id);
    let said = crate::manners::refusal(rig::ended(&mut command));
    assert!(
        said.contains("ermission denied") || said.contains("not permitted"),
        "{said}"
    );
}

/// What is copied into a file system of users who are not the host's.
#[test]
fn what_a_tmpfs_hides_is_copied_for_other_users_too() {
    let rig = rig!();
    let hidden = rig.root.join("hidden");
    fs::create_dir_all(hidden.join("below")).unwrap();
    fs::write(hidden.join("below/file"), "text\n").unwrap();
    std::os::unix::fs::symlink("below/file", hidden.join("link")).unwrap();
    let script = "cat /hidden/link && stat -c '%u %g' /hidden /hidden/below/file";
    let mut config = rig.config(&["sh", "-c", script]);
    also(&mut config, mount("/hidden", "tmpfs", &["tmpcopyup"]));
    assert_eq!(out(rig.run(&config)), "text\n0 0\n0 0\n");
    with_users(&rig, &mut config);
    own(&hidden);
    assert_eq!(out(rig.run(&config)), "text\n0 0\n0 0\n");
}

/// Gives a tree to the users of the container.
fn own(path: &Path) {
    let (uid, gid) = crate::manners::namespaces::ROOT;
    std::os::unix::fs::lchown(path, Some(uid), Some(gid)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).unwrap() {
            own(&entry.unwrap().path());
        }
    }
}

/// The options in the list of mounts of a place.
pub(crate) fn options_of(config: &Value, rig: &Rig, place: &str) -> String {
    let table = out(rig.run(config));
    let line = table
        .lines()
        .find(|line| line.split(' ').nth(1) == Some(place));
    line.and_then(|line| line.split(' ').nth(3))
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn what_is_mounted_on_a_containers_cgroups_is_not_the_hosts() {
    skip_unless!(works());
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        skip!("cgroups of version 2 are a file system of the container's own");
    }
    let rig = Rig::new();
    let mut config = rig.config(&["cat", "/proc/self/mountinfo"]);
    let cgroups = json!({ "destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup" });
    also(&mut config, cgroups);
    let (id, bundle) = rig.bundle(&config);
    // As with systemd, which shares all mounts.
    let mut run = Command::new("unshare");
    run.args(["--mount", "--propagation", "shared"]);
    let plain = rig.command();
    run.arg(plain.get_program()).args(plain.get_args());
    let said = out(ended(run.args(["run", "--bundle"]).arg(bundle).arg(id)));
    let hierarchies = said.lines().filter(|line| line.contains(" - cgroup "));
    let hierarchies: Vec<_> = hierarchies.collect();
    assert!(!hierarchies.is_empty(), "{said}");
    for hierarchy in hierarchies {
        assert!(!hierarchy.contains(" shared:"), "{hierarchy}");
    }
}
