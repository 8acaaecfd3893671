//! OCI bundles: root filesystems with busybox, and configurations as engines write them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::{machine, process};

/// Default capabilities of Docker.
pub const USUAL_CAPABILITIES: &[&str] = &[
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
];

/// Fills a directory with busybox and links to its applets.
pub fn fill_root(root: &Path, applets: &[&str]) {
    for directory in ["bin", "dev", "etc", "proc", "sys", "tmp"] {
        fs::create_dir_all(root.join(directory)).expect("make a directory");
    }
    let busybox = machine::program("busybox").unwrap_or_else(|e| panic!("{e}"));
    copy_program(&busybox, &root.join("bin/busybox"));
    for applet in applets {
        symlink("busybox", root.join("bin").join(applet)).expect("make a link");
    }
}

/// Copies a program in a separate process. If this process wrote it, a child forked meanwhile by another test could
/// inherit the open descriptor, and the program could not be executed.
pub fn copy_program(from: &Path, to: &Path) {
    process::run(std::process::Command::new("cp").arg(from).arg(to));
}

/// Returns a configuration as engines write it, for a container that runs `args`.
pub fn config(root: &Path, args: &[&str]) -> Value {
    let rights = USUAL_CAPABILITIES;
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
        "root": { "path": root },
        "mounts": [
            mount("/proc", "proc", &["nosuid", "noexec", "nodev"]),
            mount("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
            mount("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
            mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
        ],
        "linux": {
            "namespaces": [
                { "type": "pid" }, { "type": "network" }, { "type": "ipc" },
                { "type": "uts" }, { "type": "mount" },
            ],
            "resources": { "devices": [{ "allow": false, "access": "rwm" }] },
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    })
}

/// Returns a mount of a filesystem type.
pub fn mount(destination: &str, kind: &str, options: &[&str]) -> Value {
    json!({ "destination": destination, "type": kind, "source": kind, "options": options })
}
