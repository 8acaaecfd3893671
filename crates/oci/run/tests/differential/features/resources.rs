//! What it may use.

use serde_json::json;

use super::{Table, one};

const MIB: i64 = 1 << 20;

pub(super) const TABLE: Table = &[
    ("memory", |wish, chance, _| {
        let limits = [
            json!({ "limit": 64 * MIB }),
            json!({ "limit": 64 * MIB, "swap": 128 * MIB }),
            json!({ "limit": 64 * MIB, "swap": 64 * MIB, "reservation": 32 * MIB }),
            json!({ "limit": -1 }),
            json!({ "reservation": 16 * MIB }),
            json!({ "limit": 100 * MIB, "swap": -1 }),
        ];
        wish.limit("memory", limits[chance.below(6)].clone());
    }),
    ("memory and swap", |wish, _, _| {
        let limit = 64 * MIB;
        wish.limit(
            "memory",
            json!({ "limit": limit, "swap": 2 * limit, "swappiness": 10 }),
        );
    }),
    ("memory without a killer", |wish, _, _| {
        wish.limit(
            "memory",
            json!({ "limit": 64 * MIB, "disableOOMKiller": true }),
        );
    }),
    ("cpu", |wish, chance, _| {
        let limits = [
            json!({ "shares": 512 }),
            json!({ "quota": 50_000, "period": 100_000 }),
            json!({ "shares": 2, "quota": 20_000 }),
            json!({ "period": 50_000 }),
            json!({ "quota": -1 }),
            json!({ "quota": 30_000, "period": 60_000, "burst": 10_000 }),
        ];
        wish.limit("cpu", limits[chance.below(6)].clone());
    }),
    ("cpus", |wish, chance, _| {
        let cpus = one(chance, &["0", "0-1", "1"]);
        wish.limit("cpu", json!({ "cpus": cpus, "mems": "0" }));
    }),
    ("processes", |wish, chance, _| {
        let limit = [100, 7, -1, 0][chance.below(4)];
        wish.limit("pids", json!({ "limit": limit }));
    }),
    ("devices that are allowed", |wish, chance, _| {
        let rules = [
            json!([{ "allow": false, "access": "rwm" }]),
            json!([{ "allow": false, "access": "rwm" },
                   { "allow": true, "type": "c", "major": 10, "minor": 229, "access": "rw" },
                   { "allow": true, "type": "b", "major": 7, "access": "r" }]),
            json!([{ "allow": true, "access": "rwm" }]),
            json!([{ "allow": false, "access": "rwm" },
                   { "allow": true, "type": "c", "access": "m" },
                   { "allow": true, "type": "c", "major": 1, "minor": 3, "access": "rwm" }]),
        ];
        wish.limit("devices", rules[chance.below(4)].clone());
    }),
    ("devices for an administrator", |wish, _, _| {
        let all = ["CAP_SYS_ADMIN", "CAP_MKNOD", "CAP_DAC_OVERRIDE"];
        wish.capabilities(&["bounding", "effective", "permitted"], &all);
        wish.limit("devices", json!([{ "allow": false, "access": "rwm" }]));
    }),
    ("reading and writing", |wish, _, _| {
        wish.limit("blockIO", json!({ "weight": 300 }));
    }),
    ("a group within others", |wish, _, ground| {
        wish.in_steps();
        let path = format!("/{}/a/b", ground.id());
        wish.linux()["cgroupsPath"] = json!(path);
    }),
    ("a group by a relative path", |wish, _, ground| {
        wish.in_steps();
        wish.linux()["cgroupsPath"] = json!(ground.id());
    }),
    ("all at once", |wish, _, _| {
        wish.limit("memory", json!({ "limit": 80 * MIB, "swap": 80 * MIB }));
        wish.limit(
            "cpu",
            json!({ "shares": 256, "quota": 40_000, "period": 80_000 }),
        );
        wish.limit("pids", json!({ "limit": 50 }));
        wish.limit(
            "devices",
            json!([
                { "allow": false, "access": "rwm" },
                { "allow": true, "type": "c", "major": 1, "minor": 5, "access": "rwm" },
            ]),
        );
    }),
    ("no memory to speak of", |wish, _, _| {
        wish.limit("memory", json!({ "limit": 4 * MIB }));
    }),
];
