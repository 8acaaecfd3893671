//! The bundle that all run: five namespaces, usual mounts and masks, limits, busybox.

use std::fs;
use std::path::PathBuf;

use orlop_testkit::{Scratch, machine};
use serde_json::{Value, json};

/// A directory with a root file system, and a `config.json` for each use.
pub(crate) struct Bundle {
    root: PathBuf,
    base: PathBuf,
}

impl Bundle {
    pub(crate) fn new(scratch: &Scratch) -> Self {
        let root = scratch.subdir("rootfs");
        for directory in ["bin", "dev", "etc", "proc", "sys", "tmp"] {
            fs::create_dir_all(root.join(directory)).expect("make a directory");
        }
        let busybox = machine::program("busybox").unwrap_or_else(|e| panic!("{e}"));
        fs::copy(busybox, root.join("bin/busybox")).expect("copy busybox");
        for applet in ["true", "sleep"] {
            std::os::unix::fs::symlink("busybox", root.join("bin").join(applet)).expect("link");
        }
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
        let rights = json!([
            "CAP_CHOWN",
            "CAP_DAC_OVERRIDE",
            "CAP_FSETID",
            "CAP_FOWNER",
            "CAP_MKNOD",
            "CAP_NET_RAW",
            "CAP_SETGID",
            "CAP_SETUID",
            "CAP_SETFCAP",
            "CAP_SETPCAP",
            "CAP_NET_BIND_SERVICE",
            "CAP_SYS_CHROOT",
            "CAP_KILL",
            "CAP_AUDIT_WRITE",
        ]);
        let mount = |destination: &str, kind: &str, options: &[&str]| json!({ "destination": destination, "type": kind, "source": kind, "options": options });
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": { "uid": 0, "gid": 0 },
                "args": args,
                "env": ["PATH=/bin"],
                "cwd": "/",
                "capabilities": { "bounding": rights, "effective": rights, "permitted": rights },
                "noNewPrivileges": true,
            },
            "root": { "path": self.root },
            "hostname": "measured",
            "mounts": [
                mount("/proc", "proc", &["nosuid", "noexec", "nodev"]),
                mount("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
                mount("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]),
                mount("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
                mount("/dev/mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
                mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
            ],
            "linux": {
                "cgroupsPath": format!("/{id}"),
                "namespaces": [
                    { "type": "pid" }, { "type": "network" }, { "type": "ipc" },
                    { "type": "uts" }, { "type": "mount" },
                ],
                "resources": {
                    "memory": { "limit": 256 << 20 },
                    "cpu": { "shares": 512, "quota": 100_000, "period": 100_000 },
                    "pids": { "limit": 100 },
                    "devices": [{ "allow": false, "access": "rwm" }],
                },
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi", "/sys/firmware"],
                "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
            },
        })
    }
}
