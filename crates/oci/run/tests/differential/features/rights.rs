//! What it may do: capabilities, filters of system calls, masks.

use orlop_testkit::bundle::USUAL_CAPABILITIES;
use serde_json::{Value, json};

use super::{Table, one};
use crate::bundle::Wish;

pub(super) const TABLE: Table = &[
    ("usual capabilities", |wish, _, _| {
        wish.capabilities(&["bounding", "effective", "permitted"], USUAL_CAPABILITIES);
    }),
    ("usual capabilities of a user", |wish, _, _| {
        wish.capabilities(&["bounding", "effective", "permitted"], USUAL_CAPABILITIES);
        wish.process()["user"] = json!({ "uid": 1000, "gid": 1000 });
    }),
    ("ambient capabilities", |wish, chance, _| {
        let some = ["CAP_NET_BIND_SERVICE", "CAP_SYS_NICE", "CAP_KILL"];
        let some = &some[..=chance.below(3)];
        let sets = [
            "bounding",
            "effective",
            "permitted",
            "inheritable",
            "ambient",
        ];
        wish.capabilities(&sets, some);
        wish.process()["user"] = json!({ "uid": 1000, "gid": 1000 });
    }),
    ("inheritable capabilities", |wish, _, _| {
        let sets = ["bounding", "effective", "permitted", "inheritable"];
        wish.capabilities(&sets, USUAL_CAPABILITIES);
    }),
    ("ambient that are not inheritable", |wish, _, _| {
        wish.capabilities(&["bounding", "effective", "permitted"], USUAL_CAPABILITIES);
        wish.capabilities(&["ambient"], &["CAP_KILL"]);
    }),
    ("a bounding set alone", |wish, _, _| {
        wish.capabilities(&["bounding"], &["CAP_SYS_ADMIN", "CAP_CHOWN"]);
    }),
    ("effective without permitted", |wish, _, _| {
        wish.capabilities(&["bounding", "effective"], &["CAP_KILL", "CAP_CHOWN"]);
        wish.capabilities(&["permitted"], &["CAP_CHOWN"]);
    }),
    ("an administrator", |wish, _, _| {
        let all = [
            "CAP_SYS_ADMIN",
            "CAP_MKNOD",
            "CAP_SYS_NICE",
            "CAP_NET_RAW",
            "CAP_DAC_OVERRIDE",
        ];
        wish.capabilities(&["bounding", "effective", "permitted"], &all);
    }),
    ("an unknown capability", |wish, _, _| {
        let sets = ["bounding", "effective", "permitted"];
        wish.capabilities(&sets, &["CAP_KILL", "CAP_TO_FLY"]);
    }),
    ("no new privileges", |wish, _, _| {
        wish.process()["noNewPrivileges"] = json!(true);
    }),
    ("a filter", |wish, chance, _| {
        let error = json!(["mkdir", "mkdirat", "fchmodat", "fchmodat2", "chmod"]);
        let number = [1, 13, 38][chance.below(3)];
        filter(
            wish,
            json!([
                { "names": error, "action": "SCMP_ACT_ERRNO", "errnoRet": number },
            ]),
        );
    }),
    ("a filter without new privileges", |wish, _, _| {
        wish.process()["noNewPrivileges"] = json!(true);
        filter(
            wish,
            json!([{ "names": ["mknodat", "mknod"], "action": "SCMP_ACT_ERRNO" }]),
        );
    }),
    ("a filter by arguments", |wish, _, _| {
        filter(
            wish,
            json!([
                // socket(AF_INET, SOCK_RAW, …), and any lower nice value.
                { "names": ["socket"], "action": "SCMP_ACT_ERRNO", "errnoRet": 97,
                  "args": [{ "index": 0, "value": 2, "op": "SCMP_CMP_EQ" },
                           { "index": 1, "value": 15, "valueTwo": 3, "op": "SCMP_CMP_MASKED_EQ" }] },
                { "names": ["setpriority"], "action": "SCMP_ACT_ERRNO", "errnoRet": 22,
                  "args": [{ "index": 2, "value": 10, "op": "SCMP_CMP_GE" }] },
            ]),
        );
    }),
    ("a filter of names that nobody knows", |wish, _, _| {
        filter(
            wish,
            json!([
                { "names": ["no_such_call", "mount"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95 },
            ]),
        );
    }),
    ("a filter of several architectures", |wish, _, _| {
        filter(
            wish,
            json!([{ "names": ["sethostname"], "action": "SCMP_ACT_ERRNO" }]),
        );
        wish.linux()["seccomp"]["architectures"] =
            json!(["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]);
    }),
    ("a filter that logs", |wish, _, _| {
        filter(
            wish,
            json!([{ "names": ["sethostname"], "action": "SCMP_ACT_LOG" }]),
        );
        wish.linux()["seccomp"]["flags"] = json!(["SECCOMP_FILTER_FLAG_LOG"]);
    }),
    ("a filter with a default error", |wish, _, _| {
        filter(
            wish,
            json!([{ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO" }]),
        );
        wish.linux()["seccomp"]["defaultErrnoRet"] = json!(99);
    }),
    ("a filter that kills", |wish, _, _| {
        filter(
            wish,
            json!([{ "names": ["mount"], "action": "SCMP_ACT_KILL_PROCESS" }]),
        );
    }),
    ("masked", |wish, chance, _| {
        for path in [
            "/proc/kcore",
            "/proc/keys",
            "/made/secret",
            "/made/secrets",
            "/made/nothing",
        ] {
            if chance.below(4) > 0 {
                Wish::add(&mut wish.linux()["maskedPaths"], json!(path));
            }
        }
    }),
    ("masked all", |wish, _, _| {
        wish.linux()["maskedPaths"] = json!([
            "/proc/acpi",
            "/proc/asound",
            "/proc/kcore",
            "/proc/keys",
            "/proc/latency_stats",
            "/proc/timer_list",
            "/proc/timer_stats",
            "/proc/sched_debug",
            "/proc/scsi",
            "/sys/firmware",
            "/sys/devices/virtual/powercap",
            "/made/secrets",
        ]);
    }),
    ("what docker asks for", |wish, _, _| {
        wish.capabilities(&["bounding", "effective", "permitted"], USUAL_CAPABILITIES);
        wish.linux()["sysctl"] = json!({
            "net.ipv4.ip_unprivileged_port_start": "0",
            "net.ipv4.ping_group_range": "0 2147483647",
        });
        wish.linux()["maskedPaths"] = json!(["/proc/kcore", "/proc/keys", "/sys/firmware"]);
        wish.linux()["readonlyPaths"] = json!([
            "/proc/bus",
            "/proc/fs",
            "/proc/irq",
            "/proc/sys",
            "/proc/sysrq-trigger"
        ]);
        filter(
            wish,
            json!([{ "names": ["ptrace"], "action": "SCMP_ACT_ERRNO" }]),
        );
    }),
    ("read-only", |wish, chance, _| {
        let paths = [
            "/proc/sys",
            "/proc/sysrq-trigger",
            "/proc/irq",
            "/made/sealed",
            "/made/plain",
        ];
        for path in paths {
            if chance.below(4) > 0 {
                Wish::add(&mut wish.linux()["readonlyPaths"], json!(path));
            }
        }
        let missing = one(chance, &["/made/nothing", "/made/plain"]);
        Wish::add(&mut wish.linux()["readonlyPaths"], json!(missing));
    }),
];

fn filter(wish: &mut Wish, rules: Value) {
    wish.linux()["seccomp"] = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"],
        "syscalls": rules,
    });
}
