//! Mounts that a caller has made and gives by their descriptors. No other runtime takes them.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use orlop_testkit::process::ended;
use orlop_testkit::skip_unless;
use rustix::fs::CWD;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mount::{OpenTreeFlags, open_tree};
use serde_json::{Value, json};

use crate::manners::namespaces::with_users;
use crate::manners::refusal;
use crate::rig::{Rig, also, rig, volume, works};

/// A mount of a directory that is nowhere, and is passed on.
fn detached(dir: &Path) -> OwnedFd {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mount = open_tree(CWD, dir, flags).unwrap();
    fcntl_setfd(&mount, FdFlags::empty()).unwrap();
    mount
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

type Change = fn(&Rig, &mut Value);

/// A directory whose mount others share, as they do all of a node's with systemd.
struct Shared(PathBuf);

impl Shared {
    fn new(rig: &Rig, name: &str) -> Self {
        let dir = rig.outside(name);
        let mount = |words: &[&str]| {
            let mut mount = Command::new("mount");
            assert!(mount.args(words).arg(&dir).status().unwrap().success());
        };
        mount(&["-t", "tmpfs", "tmpfs"]);
        mount(&["--make-shared"]);
        Self(dir)
    }

    fn place(&self) -> PathBuf {
        let place = self.0.join("place");
        fs::create_dir(&place).unwrap();
        place
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-Rl").arg(&self.0).status();
    }
}

fn as_it_is(_: &Rig, _: &mut Value) {}

fn shared(_: &Rig, config: &mut Value) {
    config["linux"]["rootfsPropagation"] = "shared".into();
}

fn read_only(config: &mut Value, at: usize) {
    let mounts = config["mounts"].as_array_mut().unwrap();
    let last = mounts.len() - at;
    mounts[last]["options"] = json!(["rbind", "rro"]);
}

/// The volume is only read.
fn with_a_reader(_: &Rig, config: &mut Value) {
    read_only(config, 2);
}

/// What is mounted below a volume later is there, too.
fn with_propagation(rig: &Rig, config: &mut Value) {
    for (name, ways) in [
        ("received", ["rbind", "rslave"]),
        ("sent", ["rbind", "rshared"]),
        ("private", ["rbind", "rprivate"]),
        ("usual", ["rbind", "rw"]),
        ("alone", ["bind", "slave"]),
    ] {
        let mut mount = volume(&rig.outside("with-other"), &format!("/{name}"));
        mount["options"] = json!(ways);
        also(config, mount);
    }
}

/// Devices of its own, and a file in the place of another.
fn with_files_and_devices(rig: &Rig, config: &mut Value) {
    let file = rig.outside("files").join("hosts");
    fs::write(&file, "127.0.0.1 localhost\n").unwrap();
    also(config, volume(&file, "/etc/hosts"));
    config["linux"]["devices"] =
        json!([{ "path": "/dev/own", "type": "c", "major": 1, "minor": 5, "fileMode": 438 }]);
}

/// The volume is named as the caller has named it, by a link to where it belongs.
fn by_the_same_link(rig: &Rig, config: &mut Value) {
    let mounts = config["mounts"].as_array_mut().unwrap();
    let volume = mounts.len() - 2;
    mounts[volume]["source"] = rig.outside("links").join("volume").to_str().into();
}

/// The volume is named by another link to where it belongs.
fn by_another_link(rig: &Rig, config: &mut Value) {
    let mounts = config["mounts"].as_array_mut().unwrap();
    let volume = mounts.len() - 2;
    mounts[volume]["source"] = rig.outside("links").join("other").to_str().into();
}

/// The volume is there twice.
fn twice(rig: &Rig, config: &mut Value) {
    let place = rig.outside("with-volume").join("place");
    also(config, volume(&place, "/again"));
}

/// The same by two names, once for readers alone.
fn twice_by_links(rig: &Rig, config: &mut Value) {
    read_only(config, 2);
    also(
        config,
        volume(&rig.outside("links").join("volume"), "/again"),
    );
}

/// A part of the volume is a volume.
fn in_part(rig: &Rig, config: &mut Value) {
    let said = rig.outside("with-volume").join("place/said");
    also(config, volume(&said, "/part"));
}

/// A file system is made of others.
fn with_an_overlay(rig: &Rig, config: &mut Value) {
    let [one, other] = ["lower", "other"].map(|name| rig.outside(name));
    let options = format!("lowerdir={}:{}", one.display(), other.display());
    let overlay = json!({ "destination": "/made", "type": "overlay", "source": "overlay", "options": [options] });
    also(config, overlay);
}

/// The devices are the host's.
fn with_the_hosts_devices(_: &Rig, config: &mut Value) {
    let mounts = config["mounts"].as_array_mut().unwrap();
    mounts.retain(|mount| !mount["destination"].as_str().unwrap().starts_with("/dev"));
    let mut devices = volume(Path::new("/dev"), "/dev");
    // Not what others have mounted below.
    devices["options"] = json!(["bind"]);
    mounts.insert(0, devices);
}

fn private(rig: &Rig, config: &mut Value) {
    config["linux"]["rootfsPropagation"] = "rprivate".into();
    also(
        config,
        volume(&rig.outside("with-other"), "/of-a-shared-one"),
    );
}

/// Who looks from outside sees the mounts, too.
fn with_a_hook(rig: &Rig, config: &mut Value) {
    let noted = rig.outside("out").join("hook");
    let look = format!(
        "cat {}/said > {} && test -x {}/bin/sh",
        rig.outside("with-volume").join("place").display(),
        noted.display(),
        rig.outside("with-root").join("place").display(),
    );
    config["hooks"] = json!({
        "createRuntime": [{ "path": "/bin/sh", "args": ["sh", "-c", look] }],
    });
}

/// What is made of a bundle by who has given it mounts.
struct Made {
    /// What is mounted in the container, as it sees that.
    mounts: Vec<String>,
    /// Whether its namespace was made of the one with few mounts that was given.
    of_few: bool,
}

/// Has mounts given to a container, and a mount namespace with few mounts besides, and looks around there.
fn make(change: Change, few: bool) -> Made {
    let rig = Rig::new();
    let shared = ["with-root", "with-volume", "with-other"].map(|name| Shared::new(&rig, name));
    let [root_place, place, _] = shared.each_ref().map(Shared::place);
    let root = detached(&rig.root);
    fs::write(rig.outside("volume").join("said"), "by a volume").unwrap();
    let given = detached(&rig.outside("volume"));
    // As `/var/run` leads to `/run`.
    let links = rig.outside("links");
    symlink(&root_place, links.join("root")).unwrap();
    for name in ["volume", "other"] {
        symlink(&place, links.join(name)).unwrap();
    }
    let out = rig.outside("out");
    fs::set_permissions(&out, PermissionsExt::from_mode(0o777)).unwrap();

    let look = "cat /volume/said > /out/said; cat /proc/self/mountinfo > /out/mounts; \
                ls /proc/self/fd > /out/open; sleep 60";
    let mut config = rig.config(&["sh", "-c", look]);
    let link = links.join("root");
    config["root"]["path"] = link.to_str().into();
    also(&mut config, volume(&place, "/volume"));
    also(&mut config, volume(&out, "/out"));
    let masked = [
        "/proc/kcore",
        "/proc/keys",
        "/proc/acpi",
        "/proc/timer_list",
        "/sys/firmware",
    ];
    config["linux"]["maskedPaths"] = json!(masked);
    change(&rig, &mut config);
    let (id, bundle) = rig.bundle(&config);
    let told = format!(
        "{} {}\n{} {}\n",
        root.as_raw_fd(),
        link.display(),
        given.as_raw_fd(),
        links.join("volume").display()
    );
    let mut create = rig.command();
    create.env("ORLOP_RUN_MOUNTS", told);
    let namespace = few.then(|| {
        let namespace = orlop_launch::few_mounts().unwrap();
        fcntl_setfd(&namespace, FdFlags::empty()).unwrap();
        let told = format!("{} /root", namespace.as_raw_fd());
        create.env("ORLOP_RUN_NAMESPACE", told);
        namespace
    });
    create.args(["--debug", "create", "--given-mounts", "--bundle"]);
    let made = ended(create.arg(&bundle).arg(&id));
    assert!(made.ok, "{made:?}");
    drop((root, given, namespace));
    assert!(is_empty(&root_place) && is_empty(&place));
    let started = ended(rig.command().args(["start", &id]));
    assert!(started.ok, "{started:?}");
    let said = || fs::read_to_string(out.join("open")).unwrap_or_default();
    for _ in 0..500 {
        if said().lines().count() > 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // Its own streams, and what it looks with.
    assert_eq!(said().lines().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    assert_eq!(read("said"), "by a volume");
    if config.get("hooks").is_some() {
        assert_eq!(read("hook"), "by a volume");
    }
    let own_name = rig.root.parent().unwrap().file_name().unwrap();
    let own_name = own_name.to_str().unwrap();
    // Without the numbers of mounts and of groups, and of what was made for this one alone.
    let own = |line: &str| {
        let words = line
            .split(' ')
            .skip(3)
            .map(|word| match word.split_once(':') {
                Some((what @ ("shared" | "master" | "propagate_from"), _)) => what.to_owned(),
                _ => word.replace(&id, "ID").replace(own_name, "RIG"),
            });
        words.collect::<Vec<_>>().join(" ")
    };
    let mut mounts: Vec<_> = read("mounts").lines().map(own).collect();
    // They are told in the order that they were opened in.
    mounts.sort();
    Made {
        mounts,
        of_few: made
            .err
            .contains("mount namespace copied from a prepared one"),
    }
}

#[test]
fn mounts_that_are_given_are_the_containers_and_nobody_elses() {
    skip_unless!(works());
    for change in [as_it_is, shared, with_a_hook, with_users] {
        assert!(!make(change, false).of_few);
    }
}

#[test]
fn a_container_made_of_a_namespace_with_few_mounts_is_as_one_made_of_a_copy() {
    skip_unless!(works());
    let enough: [Change; 6] = [
        by_the_same_link,
        as_it_is,
        private,
        with_a_reader,
        with_propagation,
        with_files_and_devices,
    ];
    let not_enough: [Change; 9] = [
        in_part,
        twice_by_links,
        shared,
        with_a_hook,
        with_users,
        by_another_link,
        twice,
        with_an_overlay,
        with_the_hosts_devices,
    ];
    for (changes, does) in [(&enough[..], true), (&not_enough[..], false)] {
        for (number, change) in changes.iter().enumerate() {
            let (of_few, of_copy) = (make(*change, true), make(*change, false));
            assert_eq!(of_few.of_few, does, "{number}");
            assert_eq!(of_few.mounts, of_copy.mounts, "{number}");
        }
    }
}

#[test]
fn what_is_no_mount_is_no_part_of_a_container() {
    let rig = rig!();
    let file = fs::File::open(&rig.root).unwrap();
    fcntl_setfd(&file, FdFlags::empty()).unwrap();
    let place = rig.outside("root-place");
    let mut config = rig.config(&["true"]);
    config["root"]["path"] = place.to_str().into();
    let (id, bundle) = rig.bundle(&config);
    for (told, field) in [
        (
            format!("{} {}", file.as_raw_fd(), place.display()),
            "root.path",
        ),
        (format!("4000 {}", place.display()), "ORLOP_RUN_MOUNTS"),
        (format!("0 {}", place.display()), "ORLOP_RUN_MOUNTS"),
        ("none".to_owned(), "ORLOP_RUN_MOUNTS"),
    ] {
        let mut create = rig.command();
        create.env("ORLOP_RUN_MOUNTS", &told);
        let made = ended(
            create
                .args(["create", "--given-mounts", "--bundle"])
                .arg(&bundle)
                .arg(&id),
        );
        let said = refusal(made);
        assert!(said.contains(field), "{told}: {said}");
    }
}
