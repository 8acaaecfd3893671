//! Which worlds it lives in.

use serde_json::json;

use super::{Table, one};
use crate::bundle::Wish;
use crate::ground::Ground;

pub(super) const TABLE: Table = &[
    ("the machine's network", |wish, _, _| {
        wish.without_namespace("network");
    }),
    ("the machine's ipc", |wish, _, _| {
        // No queues of messages of its own then.
        wish.without_namespace("ipc");
    }),
    ("the machine's names", |wish, _, _| {
        wish.without_namespace("uts");
    }),
    ("the machine's processes", |wish, _, _| {
        wish.without_namespace("pid");
    }),
    ("the machine's processes, in steps", |wish, _, _| {
        wish.without_namespace("pid");
        wish.in_steps();
    }),
    ("a cgroup namespace", |wish, _, _| wish.namespace("cgroup")),
    ("a given network", |wish, _, ground| {
        given(wish, "network", ground);
    }),
    ("a given ipc", |wish, _, ground| given(wish, "ipc", ground)),
    ("given names", |wish, _, ground| {
        given(wish, "uts", ground);
        if let Some(config) = wish.config.as_object_mut() {
            config.remove("hostname");
        }
    }),
    ("a given network, executed in", |wish, _, ground| {
        given(wish, "network", ground);
        wish.in_steps();
        wish.exec = Some(json!({
            "args": [crate::bundle::PROBE], "cwd": "/", "env": [], "user": { "uid": 0, "gid": 0 },
        }));
    }),
    ("times", |wish, chance, _| {
        wish.namespace("time");
        let seconds = [0, 100, 1_000_000][chance.below(3)];
        wish.linux()["timeOffsets"] = json!({
            "monotonic": { "secs": seconds, "nanosecs": 5 },
            "boottime": { "secs": seconds + 7, "nanosecs": 0 },
        });
    }),
    ("times as they are", |wish, _, _| wish.namespace("time")),
    ("users", |wish, _, _| users(wish)),
    ("users, in steps", |wish, _, _| {
        users(wish);
        wish.in_steps();
    }),
    ("users and one of them", |wish, _, _| {
        users(wish);
        wish.process()["user"] = json!({ "uid": 1000, "gid": 1000, "additionalGids": [5, 2000] });
    }),
    ("users and their rights", |wish, _, _| {
        users(wish);
        let sets = ["bounding", "effective", "permitted"];
        wish.capabilities(
            &sets,
            &["CAP_SYS_ADMIN", "CAP_NET_RAW", "CAP_MKNOD", "CAP_CHOWN"],
        );
    }),
    ("users, executed in", |wish, _, _| {
        users(wish);
        wish.in_steps();
        wish.exec = Some(json!({
            "args": [crate::bundle::PROBE], "cwd": "/tmp", "env": [], "user": { "uid": 7, "gid": 8 },
        }));
    }),
    ("users with a terminal", |wish, _, _| {
        users(wish);
        wish.in_steps();
        wish.process()["terminal"] = json!(true);
    }),
    ("users and devices", |wish, _, _| {
        users(wish);
        Wish::add(
            &mut wish.linux()["devices"],
            json!({ "path": "/dev/fuse", "type": "c", "major": 10, "minor": 229, "fileMode": 0o666 }),
        );
    }),
    ("sysctls", |wish, chance, _| {
        wish.namespace("ipc");
        wish.namespace("network");
        let some = [
            json!({ "kernel.shm_rmid_forced": "1", "kernel.msgmax": "4096" }),
            json!({ "net.ipv4.ip_forward": "1", "net.ipv4.ip_unprivileged_port_start": "0" }),
            json!({ "net.ipv4.ping_group_range": "0 2147483647", "fs.mqueue.msg_max": "7" }),
            json!({ "kernel.sem": "100 200 30 40", "net.core.somaxconn": "77" }),
        ];
        wish.linux()["sysctl"] = some[chance.below(4)].clone();
    }),
    ("a sysctl with slashes", |wish, _, _| {
        wish.namespace("network");
        wish.linux()["sysctl"] = json!({ "net/ipv4/ip_forward": "1" });
    }),
    ("propagation of the root", |wish, chance, _| {
        let kinds = [
            "rprivate",
            "private",
            "rslave",
            "slave",
            "shared",
            "rshared",
            "unbindable",
        ];
        let kind = one(chance, &kinds);
        wish.linux()["rootfsPropagation"] = json!(kind);
    }),
    ("a shared root", |wish, _, _| {
        wish.linux()["rootfsPropagation"] = json!("shared");
    }),
    ("a slave root", |wish, _, _| {
        wish.linux()["rootfsPropagation"] = json!("rslave");
    }),
];

fn given(wish: &mut Wish, kind: &str, ground: &Ground) {
    wish.join(kind, &ground.given(kind));
}

/// Root is nobody outside. The bundle is the machine's root's: it sees it as nobody's.
fn users(wish: &mut Wish) {
    wish.namespace("user");
    let mapping = json!([
        { "containerID": 0, "hostID": 100_000, "size": 65_536 },
    ]);
    wish.linux()["uidMappings"] = mapping.clone();
    wish.linux()["gidMappings"] = mapping;
}
