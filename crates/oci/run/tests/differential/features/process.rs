//! The process: who it is, where, with what.

use serde_json::json;

use super::{Table, one};
use crate::bundle::{PROBE, Wish};

pub(super) const TABLE: Table = &[
    ("nothing", |_, _, _| {}),
    ("steps", |wish, _, _| wish.in_steps()),
    ("user", |wish, chance, _| {
        let (uid, gid) = [(1000, 1000), (0, 1000), (1000, 0), (12345, 54321)][chance.below(4)];
        wish.process()["user"]["uid"] = json!(uid);
        wish.process()["user"]["gid"] = json!(gid);
    }),
    ("user sailor", |wish, _, _| {
        wish.process()["user"] = json!({ "uid": 1000, "gid": 1000 });
    }),
    ("groups", |wish, chance, _| {
        let groups = [json!([5, 6, 2000]), json!([0]), json!([1000, 1000, 7])];
        wish.process()["user"]["additionalGids"] = groups[chance.below(3)].clone();
    }),
    ("umask", |wish, chance, _| {
        wish.process()["user"]["umask"] = json!([0o077, 0o000, 0o027][chance.below(3)]);
    }),
    ("environment", |wish, _, _| {
        wish.process()["env"] = json!(["PATH=/bin", "A=1", "B=", "C=with = in it", "A=2", "E=é"]);
    }),
    ("environment of nothing", |wish, _, _| {
        wish.process()["env"] = json!([]);
    }),
    ("home", |wish, _, _| {
        Wish::add(&mut wish.process()["env"], json!("HOME=/somewhere"));
    }),
    ("program by its name", |wish, _, _| {
        wish.process()["env"] = json!(["PATH=/nowhere:/"]);
        wish.process()["args"] = json!([PROBE.trim_start_matches('/')]);
    }),
    ("directory", |wish, chance, _| {
        wish.process()["cwd"] = json!(one(chance, &["/tmp", "/mnt/below", "/home", "/dev/shm"]));
    }),
    ("directory that is not there", |wish, _, _| {
        wish.process()["cwd"] = json!("/made/deep/down");
    }),
    ("directory of another", |wish, _, _| {
        wish.process()["user"] = json!({ "uid": 1000, "gid": 1000 });
        wish.process()["cwd"] = json!("/home/sailor");
    }),
    ("end", |wish, chance, _| {
        if wish.life == crate::bundle::Life::Run {
            let code = one(chance, &["0", "1", "7", "127", "255"]);
            wish.process()["args"] = json!([PROBE, "end", code]);
        }
    }),
    ("limits", |wish, chance, _| {
        let limits = [
            json!([{ "type": "RLIMIT_NOFILE", "soft": 256, "hard": 512 }]),
            json!([{ "type": "RLIMIT_CORE", "soft": 0, "hard": 0 },
                   { "type": "RLIMIT_NPROC", "soft": 100, "hard": 200 }]),
            json!([{ "type": "RLIMIT_STACK", "soft": 1_048_576, "hard": 8_388_608 },
                   { "type": "RLIMIT_FSIZE", "soft": 10_000_000, "hard": 20_000_000 },
                   { "type": "RLIMIT_MEMLOCK", "soft": 4096, "hard": 8192 }]),
            json!([{ "type": "RLIMIT_CPU", "soft": 60, "hard": 61 },
                   { "type": "RLIMIT_MSGQUEUE", "soft": 1000, "hard": 2000 },
                   { "type": "RLIMIT_SIGPENDING", "soft": 10, "hard": 20 },
                   { "type": "RLIMIT_LOCKS", "soft": 10, "hard": 20 }]),
        ];
        wish.process()["rlimits"] = limits[chance.below(4)].clone();
    }),
    ("score of the killer", |wish, chance, _| {
        wish.process()["oomScoreAdj"] = json!([1, 500, 1000][chance.below(3)]);
    }),
    ("scheduler", |wish, chance, _| {
        let schedulers = [
            json!({ "policy": "SCHED_BATCH", "nice": 5 }),
            json!({ "policy": "SCHED_OTHER", "nice": 10 }),
            json!({ "policy": "SCHED_IDLE" }),
        ];
        wish.process()["scheduler"] = schedulers[chance.below(3)].clone();
    }),
    ("priority of io", |wish, chance, _| {
        let class = one(chance, &["IOPRIO_CLASS_BE", "IOPRIO_CLASS_IDLE"]);
        wish.process()["ioPriority"] = json!({ "class": class, "priority": 6 });
    }),
    ("personality", |wish, chance, _| {
        let domain = one(chance, &["LINUX", "LINUX32"]);
        wish.linux()["personality"] = json!({ "domain": domain });
    }),
    ("terminal", |wish, chance, _| {
        wish.in_steps();
        wish.process()["terminal"] = json!(true);
        if chance.below(2) == 0 {
            wish.process()["consoleSize"] = json!({ "height": 33, "width": 77 });
        }
    }),
    ("terminal of a user", |wish, _, _| {
        wish.in_steps();
        wish.process()["terminal"] = json!(true);
        wish.process()["consoleSize"] = json!({ "height": 33, "width": 77 });
        wish.process()["user"] = json!({ "uid": 1000, "gid": 1000 });
    }),
    ("annotations", |wish, _, _| {
        wish.in_steps();
        wish.config["annotations"] = json!({ "org.example.one": "1", "org.example.empty": "" });
    }),
    ("names", |wish, _, _| {
        wish.namespace("uts");
        wish.config["hostname"] = json!("ship.example");
        wish.config["domainname"] = json!("example");
    }),
    ("exec", |wish, _, _| {
        exec(
            wish,
            json!({ "args": [PROBE], "cwd": "/", "env": ["PATH=/bin"] }),
        );
    }),
    ("exec of a user", |wish, _, _| {
        let user = json!({ "uid": 1000, "gid": 1000, "additionalGids": [2000], "umask": 0o027 });
        let env = json!(["PATH=/bin", "X=y"]);
        exec(
            wish,
            json!({ "args": [PROBE, "end", "3"], "cwd": "/tmp", "env": env, "user": user }),
        );
    }),
    ("exec with rights", |wish, _, _| {
        let some = json!(["CAP_NET_RAW", "CAP_KILL"]);
        let rights = json!({ "bounding": some, "effective": some, "permitted": some });
        exec(
            wish,
            json!({
                "args": [PROBE], "cwd": "/", "env": ["PATH=/bin"],
                "capabilities": rights, "noNewPrivileges": true,
                "rlimits": [{ "type": "RLIMIT_NOFILE", "soft": 100, "hard": 101 }],
                "oomScoreAdj": 300,
            }),
        );
    }),
    ("exec with a terminal", |wish, _, _| {
        exec(
            wish,
            json!({
                "args": [PROBE], "cwd": "/", "env": ["PATH=/bin", "TERM=xterm"], "terminal": true,
                "consoleSize": { "height": 20, "width": 70 },
            }),
        );
    }),
    ("exec with another scheduler", |wish, _, _| {
        exec(
            wish,
            json!({
                "args": [PROBE], "cwd": "/", "env": ["PATH=/bin"],
                "scheduler": { "policy": "SCHED_BATCH", "nice": 3 },
                "ioPriority": { "class": "IOPRIO_CLASS_BE", "priority": 5 },
            }),
        );
    }),
    ("exec of what is not there", |wish, _, _| {
        exec(wish, json!({ "args": ["/nothing"], "cwd": "/", "env": [] }));
    }),
];

fn exec(wish: &mut Wish, mut process: serde_json::Value) {
    wish.in_steps();
    if process.get("user").is_none() {
        process["user"] = json!({ "uid": 0, "gid": 0 });
    }
    wish.exec = Some(process);
}
