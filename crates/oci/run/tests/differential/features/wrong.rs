//! What must be refused, and leave nothing.

use serde_json::{Value, json};

use super::Table;

pub(super) const TABLE: Table = &[
    ("wrong: no process", |wish, _, _| {
        remove(&mut wish.config, "process");
    }),
    ("wrong: no root", |wish, _, _| {
        remove(&mut wish.config, "root");
    }),
    ("wrong: a root that is not there", |wish, _, _| {
        wish.config["root"]["path"] = json!("nothing");
    }),
    ("wrong: no arguments", |wish, _, _| {
        wish.process()["args"] = json!([]);
    }),
    ("wrong: a program that is not there", |wish, _, _| {
        wish.process()["args"] = json!(["/nothing"]);
    }),
    ("wrong: a program that is none", |wish, _, _| {
        wish.process()["args"] = json!(["/made/plain"]);
    }),
    ("wrong: a relative directory", |wish, _, _| {
        wish.process()["cwd"] = json!("tmp");
    }),
    ("wrong: a directory that is a file", |wish, _, _| {
        wish.process()["cwd"] = json!("/made/plain");
    }),
    ("wrong: an unknown namespace", |wish, _, _| {
        wish.namespace("dreams");
    }),
    ("wrong: a namespace twice", |wish, _, _| {
        let again = json!({ "type": "pid" });
        crate::bundle::Wish::add(&mut wish.linux()["namespaces"], again);
    }),
    ("wrong: a namespace that is not there", |wish, _, _| {
        wish.join("network", "/nothing/net");
    }),
    ("wrong: a namespace of another kind", |wish, _, ground| {
        wish.join("network", &ground.given("uts"));
    }),
    ("wrong: an unknown limit", |wish, _, _| {
        wish.process()["rlimits"] = json!([{ "type": "RLIMIT_DREAMS", "soft": 1, "hard": 1 }]);
    }),
    ("wrong: a soft limit above the hard", |wish, _, _| {
        wish.process()["rlimits"] = json!([{ "type": "RLIMIT_NOFILE", "soft": 9, "hard": 8 }]);
    }),
    ("wrong: a limit twice", |wish, _, _| {
        let limit = json!({ "type": "RLIMIT_NOFILE", "soft": 9, "hard": 18 });
        wish.process()["rlimits"] = json!([limit, limit]);
    }),
    ("wrong: an unknown action of a filter", |wish, _, _| {
        wish.linux()["seccomp"] = json!({ "defaultAction": "SCMP_ACT_DREAM" });
    }),
    ("wrong: an unknown operator of a filter", |wish, _, _| {
        wish.linux()["seccomp"] = json!({ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            { "names": ["mount"], "action": "SCMP_ACT_ERRNO",
              "args": [{ "index": 0, "value": 1, "op": "SCMP_CMP_DREAM" }] }] });
    }),
    ("wrong: a sysctl of the machine", |wish, _, _| {
        wish.linux()["sysctl"] = json!({ "vm.overcommit_memory": "1" });
    }),
    ("wrong: a sysctl without its namespace", |wish, _, _| {
        wish.without_namespace("network");
        wish.linux()["sysctl"] = json!({ "net.ipv4.ip_forward": "1" });
    }),
    ("wrong: a name without its namespace", |wish, _, _| {
        wish.without_namespace("uts");
        wish.config["hostname"] = json!("dream");
    }),
    ("wrong: a mount of an unknown type", |wish, _, _| {
        wish.mount("/mnt", "dreamfs", "dream", &[]);
    }),
    ("wrong: a mount of nothing", |wish, _, _| {
        wish.mount("/mnt", "bind", "/nothing/at/all", &["bind"]);
    }),
    ("wrong: a mount with an unknown option", |wish, _, _| {
        wish.mount("/mnt", "tmpfs", "tmpfs", &["dream=1"]);
    }),
    ("wrong: a directory upon a file", |wish, _, ground| {
        wish.mount("/made/plain", "bind", &ground.source("tree"), &["bind"]);
    }),
    ("wrong: a mount over /proc", |wish, _, _| {
        wish.mount("/proc", "bind", "/tmp", &["bind"]);
    }),
    ("wrong: a mount within /proc", |wish, _, ground| {
        wish.mount("/proc/self/attr", "bind", &ground.source("tree"), &["bind"]);
    }),
    ("wrong: an unknown propagation", |wish, _, _| {
        wish.linux()["rootfsPropagation"] = json!("dream");
    }),
    ("wrong: an unknown kind of device", |wish, _, _| {
        let device = json!({ "path": "/dev/dream", "type": "x", "major": 1, "minor": 3 });
        wish.linux()["devices"] = json!([device]);
    }),
    ("wrong: an unknown scheduler", |wish, _, _| {
        wish.process()["scheduler"] = json!({ "policy": "SCHED_DREAM" });
    }),
    ("wrong: an unknown priority of io", |wish, _, _| {
        wish.process()["ioPriority"] = json!({ "class": "IOPRIO_CLASS_DREAM", "priority": 1 });
    }),
    ("wrong: an unknown personality", |wish, _, _| {
        wish.linux()["personality"] = json!({ "domain": "DREAM" });
    }),
    ("wrong: users without a map", |wish, _, _| {
        wish.namespace("user");
    }),
    ("wrong: a map without users", |wish, _, _| {
        wish.linux()["uidMappings"] = json!([{ "containerID": 0, "hostID": 1000, "size": 1 }]);
    }),
    ("wrong: a terminal without a socket", |wish, _, _| {
        // In the foreground there is none to copy from.
        wish.process()["terminal"] = json!(true);
    }),
    ("wrong: a cpu that is not there", |wish, _, _| {
        wish.limit("cpu", json!({ "cpus": "4000" }));
    }),
    ("wrong: a text for a number", |wish, _, _| {
        wish.process()["user"]["uid"] = json!("root");
    }),
    ("wrong: a map of times without times", |wish, _, _| {
        wish.linux()["timeOffsets"] = json!({ "monotonic": { "secs": 1, "nanosecs": 0 } });
    }),
];

fn remove(config: &mut Value, field: &str) {
    if let Some(config) = config.as_object_mut() {
        config.remove(field);
    }
}
