//! What is mounted, and how.

use serde_json::json;

use super::{Table, one};
use crate::bundle::Wish;

pub(super) const TABLE: Table = &[
    ("a read-only root", |wish, _, _| {
        wish.config["root"]["readonly"] = json!(true);
    }),
    ("a tmpfs", |wish, chance, _| {
        let size = one(chance, &["size=1m", "size=65536k", "nr_inodes=100"]);
        let mode = one(chance, &["mode=1777", "mode=700", "mode=0755"]);
        wish.mount("/tmp", "tmpfs", "tmpfs", &["nosuid", "nodev", size, mode]);
    }),
    ("a tmpfs without options", |wish, _, _| {
        wish.mount("/mnt", "tmpfs", "tmpfs", &[]);
    }),
    ("a tmpfs for reading", |wish, _, _| {
        wish.mount("/mnt", "tmpfs", "tmpfs", &["ro", "noexec", "noatime"]);
    }),
    ("a tmpfs with what was there", |wish, _, _| {
        wish.mount("/made", "tmpfs", "tmpfs", &["tmpcopyup", "mode=1755"]);
    }),
    ("a bind mount", |wish, chance, ground| {
        let options = [
            &["bind"][..],
            &["rbind"],
            &["bind", "ro"],
            &["rbind", "ro", "nosuid", "nodev", "noexec"],
            &["bind", "noatime"],
            &["rbind", "nodiratime", "strictatime"],
            &["bind", "rw", "suid", "exec"],
        ];
        let options = options[chance.below(options.len())];
        wish.mount("/mnt", "bind", &ground.source("tree"), options);
    }),
    ("a bind mount for reading", |wish, _, ground| {
        wish.mount("/mnt", "bind", &ground.source("tree"), &["rbind", "ro"]);
    }),
    ("a bind mount without a type", |wish, _, ground| {
        wish.mount("/mnt", "", &ground.source("tree"), &["bind", "nosuid"]);
    }),
    ("a bind mount of the type none", |wish, _, ground| {
        wish.mount("/mnt", "none", &ground.source("tree"), &["rbind", "nodev"]);
    }),
    ("a bind mount of a relative source", |wish, _, _| {
        wish.mount("/mnt", "bind", "sources/tree", &["bind"]);
    }),
    ("a bind mount of a file", |wish, chance, ground| {
        let at = one(chance, &["/etc/passwd", "/made/plain", "/made/new/file"]);
        wish.mount(at, "bind", &ground.source("single"), &["bind", "ro"]);
    }),
    ("a bind mount where nothing is", |wish, _, ground| {
        wish.mount(
            "/made/new/place",
            "bind",
            &ground.source("tree"),
            &["rbind"],
        );
    }),
    ("bind mounts upon each other", |wish, _, ground| {
        wish.mount("/mnt", "bind", &ground.source("tree"), &["bind"]);
        wish.mount("/mnt/deep", "tmpfs", "tmpfs", &["size=1m"]);
        wish.mount(
            "/mnt/plain",
            "bind",
            &ground.source("single"),
            &["bind", "ro"],
        );
    }),
    ("recursively read-only", |wish, _, ground| {
        wish.mount("/mnt", "bind", &ground.source("tree"), &["rbind", "rro"]);
    }),
    ("recursive options", |wish, chance, ground| {
        let option = one(
            chance,
            &["rnoexec", "rnosuid", "rnodev", "rnoatime", "rrelatime"],
        );
        wish.mount("/mnt", "bind", &ground.source("tree"), &["rbind", option]);
    }),
    ("propagation of mounts", |wish, chance, ground| {
        let kinds = [
            "private",
            "rprivate",
            "slave",
            "rslave",
            "shared",
            "rshared",
            "unbindable",
            "runbindable",
        ];
        let kind = one(chance, &kinds);
        wish.mount("/mnt", "bind", &ground.source("tree"), &["rbind", kind]);
    }),
    ("a shared mount", |wish, _, ground| {
        wish.mount(
            "/mnt",
            "bind",
            &ground.source("tree"),
            &["rbind", "rshared"],
        );
    }),
    ("a slave mount", |wish, _, ground| {
        wish.mount("/mnt", "bind", &ground.source("tree"), &["rbind", "rslave"]);
    }),
    ("idmapped", |wish, _, ground| {
        wish.mount("/mnt", "bind", &ground.source("tree"), &["bind", "idmap"]);
        let mapping = json!([{ "containerID": 0, "hostID": 5000, "size": 1000 }]);
        if let Some(mount) = wish.config["mounts"]
            .as_array_mut()
            .and_then(|list| list.last_mut())
        {
            mount["uidMappings"] = mapping.clone();
            mount["gidMappings"] = mapping;
        }
    }),
    ("control groups", |wish, _, _| {
        let options = ["nosuid", "noexec", "nodev", "relatime", "ro"];
        wish.mount("/sys/fs/cgroup", "cgroup", "cgroup", &options);
    }),
    ("control groups in a namespace", |wish, _, _| {
        wish.namespace("cgroup");
        let options = ["nosuid", "noexec", "nodev", "relatime", "ro"];
        wish.mount("/sys/fs/cgroup", "cgroup", "cgroup", &options);
    }),
    ("no devices", |wish, _, _| {
        wish.without_mount("/dev");
    }),
    ("the machine's devices", |wish, _, _| {
        wish.without_mount("/dev");
        wish.mount("/dev", "bind", "/dev", &["bind", "ro"]);
    }),
    ("a small /dev", |wish, _, _| {
        wish.remount(
            "/dev",
            &["nosuid", "noexec", "strictatime", "mode=711", "size=100k"],
        );
    }),
    ("a read-only /dev", |wish, _, _| {
        wish.remount(
            "/dev",
            &["nosuid", "strictatime", "mode=755", "size=65536k", "ro"],
        );
    }),
    ("no /sys", |wish, _, _| wish.without_mount("/sys")),
    ("a /sys to write to", |wish, _, _| {
        wish.remount("/sys", &["nosuid", "noexec", "nodev"]);
    }),
    ("a careful /proc", |wish, _, _| {
        wish.remount("/proc", &["nosuid", "noexec", "nodev"]);
    }),
    ("a /proc of few", |wish, _, _| {
        wish.remount("/proc", &["nosuid", "hidepid=2"]);
    }),
    ("one terminal", |wish, _, _| {
        wish.remount(
            "/dev/pts",
            &[
                "nosuid",
                "noexec",
                "newinstance",
                "ptmxmode=0600",
                "mode=0600",
                "max=10",
            ],
        );
    }),
    ("devices", |wish, chance, _| {
        let devices = [
            json!({ "path": "/dev/fuse", "type": "c", "major": 10, "minor": 229 }),
            json!({ "path": "/dev/one", "type": "c", "major": 1, "minor": 3, "fileMode": 0o600, "uid": 1000, "gid": 5 }),
            json!({ "path": "/dev/deep/down/block", "type": "b", "major": 7, "minor": 0, "fileMode": 0o640 }),
            json!({ "path": "/dev/pipe", "type": "p", "fileMode": 0o622 }),
            json!({ "path": "/dev/unbuffered", "type": "u", "major": 1, "minor": 5, "fileMode": 0o666 }),
            json!({ "path": "/made/elsewhere", "type": "c", "major": 1, "minor": 7, "fileMode": 0o666 }),
        ];
        for device in devices {
            if chance.below(2) == 0 {
                Wish::add(&mut wish.linux()["devices"], device);
            }
        }
    }),
    ("a device that is there already", |wish, _, _| {
        let null =
            json!({ "path": "/dev/null", "type": "c", "major": 1, "minor": 3, "fileMode": 0o600 });
        Wish::add(&mut wish.linux()["devices"], null);
    }),
    ("a link as a target", |wish, _, ground| {
        // /dev/shm by another name.
        wish.mount(
            "/proc/self/cwd/tmp",
            "bind",
            &ground.source("tree"),
            &["bind"],
        );
    }),
    ("a root by an absolute path", |wish, _, ground| {
        let root = ground.bundle().join("rootfs");
        wish.config["root"]["path"] = json!(root);
    }),
];
