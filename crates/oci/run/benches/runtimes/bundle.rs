//! The bundle that all run: five namespaces, usual mounts and masks, limits, busybox.

use std::fs;
use std::path::PathBuf;

use orlop_testkit::Scratch;
use orlop_testkit::bundle::{self, fill_root, mount};
use serde_json::{Value, json};

/// A directory with a root file system, and a `config.json` for each use.
pub(crate) struct Bundle {
    root: PathBuf,
    base: PathBuf,
}

impl Bundle {
    pub(crate) fn new(scratch: &Scratch) -> Self {
        let root = scratch.subdir("rootfs");
        fill_root(&root, &["true", "sleep"]);
        let base = scratch.subdir("bundles");
        Self { root, base }
    }

    /// The directory of a bundle that runs this.
    pub(crate) fn of(&self, id: &str, args: &[&str]) -> PathBuf {
        let directory = self.base.join(id);
        fs::create_dir_all(&directory).expect("make a directory");
        let config = self.config(id, args).to_string();
        fs::write(directory.join("config.json"), config).expect("write config.json");
        directory
    }

    fn config(&self, id: &str, args: &[&str]) -> Value {
        let mut config = bundle::config(&self.root, args);
        config["hostname"] = "measured".into();
        let mounts = config["mounts"].as_array_mut().expect("mounts");
        mounts[2] = mount(
            "/dev/pts",
            "devpts",
            &[
                "nosuid",
                "noexec",
                "newinstance",
                "ptmxmode=0666",
                "mode=0620",
                "gid=5",
            ],
        );
        mounts.extend([
            mount(
                "/dev/shm",
                "tmpfs",
                &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"],
            ),
            mount("/dev/mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
        ]);
        let linux = &mut config["linux"];
        linux["cgroupsPath"] = format!("/{id}").into();
        linux["resources"]["memory"] = json!({ "limit": 256 << 20 });
        linux["resources"]["cpu"] = json!({ "shares": 512, "quota": 100_000, "period": 100_000 });
        linux["resources"]["pids"] = json!({ "limit": 100 });
        linux["maskedPaths"] = json!([
            "/proc/kcore",
            "/proc/keys",
            "/proc/timer_list",
            "/proc/scsi",
            "/sys/firmware"
        ]);
        config
    }
}
