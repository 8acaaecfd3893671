//! What becomes of the options of what is bound, which `mount(2)` has its own mind of.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::manners::mounts::options_of;
use crate::manners::namespaces::with_users;
use crate::manners::refusal;
use crate::rig::{Rig, also, rig};

/// A file system of the host with options of its own.
struct Source(PathBuf);

impl Source {
    fn new(rig: &Rig, options: &str) -> Self {
        let place = rig.outside(&options.replace(',', "-"));
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "tmpfs"])
            .arg(&place)
            .status();
        assert!(made.unwrap().success());
        let source = Self(place);
        let set = Command::new("mount")
            .args(["--bind", "-o", &format!("remount,{options}")])
            .arg(&source.0)
            .status();
        assert!(set.unwrap().success());
        source
    }

    fn bound(&self, rig: &Rig, options: &[&str]) -> Value {
        let mut config = rig.config(&["cat", "/proc/self/mounts"]);
        let bind = serde_json::json!({
            "destination": "/bound", "type": "bind", "source": self.0, "options": options,
        });
        also(&mut config, bind);
        config
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn who_says_anything_of_a_bind_mount_says_all() {
    let rig = rig!();
    for (host, asked, seen) in [
        (
            "ro,noexec,nodiratime",
            &["bind"][..],
            "ro,noexec,nodiratime,relatime",
        ),
        ("ro,noexec,nosuid", &["bind", "dev"], "rw,relatime"),
        ("nosuid,nodev,noexec", &["rbind", "rw"], "rw,relatime"),
        ("nosuid,nodev,noexec,noatime", &["bind", "ro"], "ro,noatime"),
        ("noatime", &["bind", "atime"], "rw,noatime"),
        ("noatime", &["bind", "relatime"], "rw,relatime"),
        ("noatime", &["bind", "nodiratime"], "rw,nodiratime,relatime"),
    ] {
        let source = Source::new(&rig, host);
        let options = options_of(&source.bound(&rig, asked), &rig, "/bound");
        assert_eq!(options, seen, "{host}: {asked:?}");
    }
}

#[test]
fn what_protects_a_mount_of_the_host_stays_for_other_users() {
    let rig = rig!();
    for (host, asked, seen) in [
        (
            "nosuid,nodev,noexec",
            &["bind", "ro"][..],
            "ro,nosuid,nodev,noexec,relatime",
        ),
        ("noatime", &["bind", "norelatime"], "rw,noatime"),
    ] {
        let source = Source::new(&rig, host);
        let mut config = source.bound(&rig, asked);
        with_users(&rig, &mut config);
        let options = options_of(&config, &rig, "/bound");
        assert_eq!(options, seen, "{host}: {asked:?}");
    }
    for (host, asked) in [
        ("ro", &["bind", "rw"][..]),
        ("nodev", &["bind", "dev"]),
        ("noatime", &["bind", "relatime"]),
        ("relatime", &["bind", "strictatime"]),
    ] {
        let source = Source::new(&rig, host);
        let mut config = source.bound(&rig, asked);
        with_users(&rig, &mut config);
        let said = refusal(rig.run(&config));
        assert!(said.contains("operation not permitted"), "{host}: {said}");
    }
}
