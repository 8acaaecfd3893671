//! `spec`: writes an example configuration.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::command::{Call, HELP, SPECIFICATION, Verb};
use crate::args::{FlagsEnd, switch, valued};
use crate::bundle::CONFIG;
use crate::error::{Error, Result, While};

pub(super) const VERB: Verb = Verb {
    name: "spec",
    about: "create a new specification file (config.json)",
    arguments: "",
    flags: &[
        HELP,
        valued(
            "bundle",
            Some('b'),
            "DIR",
            "path to the bundle directory (default: the current directory)",
        ),
        switch(
            "rootless",
            None,
            "create a configuration for a rootless container",
        ),
    ],
    flags_end: FlagsEnd::Nowhere,
    enters: false,
    failed: None,
    run,
};

fn run(call: &Call<'_>) -> Result<u8> {
    let path = call
        .parsed
        .path("bundle")
        .unwrap_or_else(|| PathBuf::from("."))
        .join(CONFIG);
    if path.exists() {
        return Err(Error::new(format!(
            "File {} exists. Remove it first",
            path.display()
        )));
    }
    let mut document = document();
    if call.parsed.is_on("rootless")? {
        for_few_rights(&mut document);
    }
    let text = serde_json::to_vec_pretty(&document)
        .doing(|| "cannot encode the configuration".to_owned())?;
    std::fs::write(&path, text).doing(|| format!("writing {}", path.display()))?;
    Ok(0)
}

fn document() -> Value {
    let caps = ["CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE"];
    let mut namespaces = json!([
        {"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"},
    ]);
    // As with runc: with cgroup v1 the groups are identified by their mount points.
    let is_v2 = std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    if let Some(namespaces) = namespaces.as_array_mut().filter(|_| is_v2) {
        namespaces.push(json!({"type": "cgroup"}));
    }
    json!({
        "ociVersion": SPECIFICATION,
        "process": {
            "terminal": true,
            "user": {"uid": 0, "gid": 0},
            "args": ["sh"],
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM=xterm"],
            "cwd": "/",
            "capabilities": {"bounding": caps, "effective": caps, "permitted": caps},
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}],
            "noNewPrivileges": true,
        },
        "root": {"path": "rootfs", "readonly": true},
        "hostname": "orlop-run",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
             "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
            {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
             "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]},
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
             "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]},
            {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue",
             "options": ["nosuid", "noexec", "nodev"]},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs",
             "options": ["nosuid", "noexec", "nodev", "ro"]},
            {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup",
             "options": ["nosuid", "noexec", "nodev", "relatime", "ro"]},
        ],
        "linux": {
            "resources": {"devices": [{"allow": false, "access": "rwm"}]},
            "namespaces": namespaces,
            "maskedPaths": [
                "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
                "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/sys/firmware", "/proc/scsi",
            ],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    })
}

/// Changes the configuration to a user namespace of this user, without settings that need root.
fn for_few_rights(document: &mut Value) {
    let (uid, gid) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let map = |id: u32| json!([{"containerID": 0, "hostID": id, "size": 1}]);
    if let Some(namespaces) = document["linux"]["namespaces"].as_array_mut() {
        namespaces.retain(|namespace| namespace["type"] != "network");
        namespaces.push(json!({"type": "user"}));
    }
    document["linux"]["uidMappings"] = map(uid);
    document["linux"]["gidMappings"] = map(gid);
    if let Some(linux) = document["linux"].as_object_mut() {
        linux.remove("resources");
    }
    if let Some(mounts) = document["mounts"].as_array_mut() {
        mounts.retain(|mount| mount["destination"] != "/sys/fs/cgroup");
        for mount in mounts {
            if mount["destination"] == "/sys" {
                // A user namespace cannot mount a sysfs of the host's network namespace.
                *mount = json!({"destination": "/sys", "type": "none", "source": "/sys",
                    "options": ["rbind", "nosuid", "noexec", "nodev", "ro"]});
            }
            if let Some(options) = mount["options"].as_array_mut() {
                options.retain(|option| option != "gid=5");
            }
        }
    }
}
