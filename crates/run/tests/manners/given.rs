//! Mounts that a caller has made and gives by their descriptors. No other runtime takes them.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use orlop_testkit::process::ended;
use orlop_testkit::skip_unless;
use rustix::fs::CWD;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mount::{OpenTreeFlags, open_tree};
use serde_json::{Value, json};

use crate::namespaces::with_users;
use crate::refusal;
use crate::rig::{Rig, also, volume, works};

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

#[test]
fn mounts_that_are_given_are_the_containers_and_nobody_elses() {
    skip_unless!(works());
    for change in [as_it_is, shared, with_a_hook, with_users] {
        let rig = Rig::new();
        let shared = ["with-root", "with-volume"].map(|name| Shared::new(&rig, name));
        let [root_place, place] = shared.each_ref().map(Shared::place);
        let root = detached(&rig.root);
        fs::write(rig.outside("volume").join("said"), "by a volume").unwrap();
        let given = detached(&rig.outside("volume"));
        // As `/var/run` leads to `/run`.
        let link = rig.outside("links").join("root");
        std::os::unix::fs::symlink(&root_place, &link).unwrap();
        let out = rig.outside("out");
        fs::set_permissions(&out, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();

        let look = "cat /volume/said > /out/said; ls /proc/self/fd > /out/open; sleep 60";
        let mut config = rig.config(&["sh", "-c", look]);
        config["root"]["path"] = link.to_str().into();
        also(&mut config, volume(&place, "/volume"));
        also(&mut config, volume(&out, "/out"));
        change(&rig, &mut config);
        let (id, bundle) = rig.bundle(&config);
        let told = format!(
            "{} {}\n{} {}\n",
            root.as_raw_fd(),
            link.display(),
            given.as_raw_fd(),
            place.display()
        );
        let mut create = rig.command();
        create.env("ORLOP_RUN_MOUNTS", told);
        let made = ended(
            create
                .args(["create", "--given-mounts", "--bundle"])
                .arg(&bundle)
                .arg(&id),
        );
        assert!(made.ok, "{made:?}");
        drop((root, given));
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
    }
}

#[test]
fn what_is_no_mount_is_no_part_of_a_container() {
    skip_unless!(works());
    let rig = Rig::new();
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
