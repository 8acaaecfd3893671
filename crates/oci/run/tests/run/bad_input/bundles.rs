//! `config.json`: files that are none, fields of the wrong kind, values that make no sense.

use std::fs;

use serde_json::{Value, json};

use crate::bad_input::judge::judge;

#[test]
fn bundles_that_are_broken() {
    let judge = judge!();
    let config = judge.rig.config(&["true"]);
    let (id, bundle) = judge.rig.bundle(&config);
    let file = bundle.join("config.json");
    let shown = file.display().to_string();
    for (text, why) in [
        ("", format!("{shown}: EOF while parsing a value")),
        ("{", format!("{shown}: EOF while parsing an object")),
        ("[]", format!("{shown}: ")),
        ("{} {}", format!("{shown}: trailing characters")),
        (
            "{}",
            "config.json: root.path: the root filesystem is not set".to_owned(),
        ),
    ] {
        fs::write(&file, text).unwrap();
        judge.bundle(&id, &bundle, &why);
    }
    let mut large = config.clone();
    large["annotations"] = json!({ "large": "x".repeat(17 << 20) });
    fs::write(&file, large.to_string()).unwrap();
    judge.bundle(&id, &bundle, &format!("reading {shown}: "));
    fs::remove_file(&file).unwrap();
    judge.bundle(
        &id,
        &bundle,
        &format!("JSON specification file {shown} not found"),
    );
    fs::create_dir(&file).unwrap();
    judge.bundle(&id, &bundle, &format!("reading {shown}: "));
    judge.verdict();
}

#[test]
fn fields_of_the_wrong_kind() {
    let judge = judge!();
    for (field, value, why) in [
        (
            "/process/args",
            json!("true"),
            "process.args: invalid type: string \"true\"",
        ),
        (
            "/process/args/0",
            json!(7),
            "process.args[0]: invalid type: integer `7`",
        ),
        (
            "/process/user/uid",
            json!("root"),
            "process.user.uid: invalid type: string \"root\"",
        ),
        (
            "/process/user/uid",
            json!(-1),
            "process.user.uid: invalid value: integer `-1`",
        ),
        (
            "/process/user/gid",
            json!(4_294_967_296_u64),
            "process.user.gid: invalid value: integer `4294967296`",
        ),
        (
            "/process/user/umask",
            json!("077"),
            "process.user.umask: invalid type",
        ),
        (
            "/process/rlimits",
            json!([{ "type": "RLIMIT_NOFILE", "soft": -1, "hard": 1 }]),
            "process.rlimits[0].soft: invalid value",
        ),
        (
            "/root/readonly",
            json!("yes"),
            "root.readonly: invalid type",
        ),
        (
            "/mounts/1/options",
            json!({}),
            "mounts[1].options: invalid type: map",
        ),
        (
            "/hooks",
            json!({ "poststop": [{ "path": [] }] }),
            "hooks.poststop[0].path: invalid type",
        ),
        (
            "/hooks",
            json!({ "prestart": [{ "path": "/bin/true", "timeout": "1s" }] }),
            "hooks.prestart[0].timeout: invalid type",
        ),
        (
            "/linux/namespaces/0/type",
            json!("soul"),
            "linux.namespaces[0].type: unknown variant `soul`",
        ),
        (
            "/linux/devices",
            json!([{ "path": "/dev/x", "type": "z" }]),
            "linux.devices[0].type: unknown variant `z`",
        ),
        (
            "/linux/resources/memory",
            json!({ "limit": "1G" }),
            "linux.resources.memory.limit: invalid type",
        ),
        (
            "/linux/resources/pids",
            json!({ "limit": 1.5 }),
            "linux.resources.pids.limit: invalid type",
        ),
        (
            "/linux/uidMappings",
            json!([{ "containerID": 0, "hostID": -5, "size": 1 }]),
            "linux.uidMappings[0].hostID: invalid value",
        ),
        (
            "/linux/sysctl",
            json!({ "net.core.somaxconn": 5 }),
            "linux.sysctl.net.core.somaxconn: invalid type",
        ),
        (
            "/linux/netDevices",
            json!({ "eth0": "eth1" }),
            "linux.netDevices.eth0: invalid type",
        ),
        (
            "/linux/seccomp",
            json!({ "defaultAction": "SCMP_ACT_MAYBE" }),
            "linux.seccomp.defaultAction: unknown variant `SCMP_ACT_MAYBE`",
        ),
        (
            "/linux/seccomp",
            json!({ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{ "names": ["read"], "action": "SCMP_ACT_MAYBE" }] }),
            "linux.seccomp.syscalls[0].action: unknown variant",
        ),
    ] {
        let change = |config: &mut Value| {
            let (above, last) = field.rsplit_once('/').unwrap();
            let above = config.pointer_mut(above).unwrap();
            match last.parse::<usize>() {
                Ok(index) => above[index] = value.clone(),
                Err(_) => above[last] = value.clone(),
            }
        };
        let mut config = judge.rig.config(&["true"]);
        change(&mut config);
        let (id, bundle) = judge.rig.bundle(&config);
        let file = bundle.join("config.json");
        judge.bundle(&id, &bundle, &format!("{}: {why}", file.display()));
    }
    judge.verdict();
}

#[test]
fn fields_that_make_no_sense() {
    let judge = judge!();
    for (section, why) in [
        (
            "root",
            "config.json: root.path: the root filesystem is not set",
        ),
        ("linux", "config.json: linux: this section is missing"),
    ] {
        let mut config = judge.rig.config(&["true"]);
        let (id, bundle) = judge.rig.bundle(&config);
        config.as_object_mut().unwrap().remove(section);
        fs::write(bundle.join("config.json"), config.to_string()).unwrap();
        judge.bundle(&id, &bundle, why);
    }
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 23] = [
        (
            |it| it["process"]["scheduler"] = json!({ "policy": "SCHED_SOON" }),
            "process.scheduler.policy: invalid scheduler policy: \"SCHED_SOON\"",
        ),
        (
            |it| it["process"]["ioPriority"] = json!({ "class": "IOPRIO_CLASS_SOON" }),
            "process.ioPriority.class: invalid ioPriority.Class: \"IOPRIO_CLASS_SOON\"",
        ),
        (
            |it| it["ociVersion"] = "7.0.0".into(),
            "config.json: ociVersion: version \"7.0.0\" is not supported",
        ),
        (
            |it| it["process"]["args"] = json!([]),
            "config.json: process: args must not be empty",
        ),
        (
            |it| it["process"]["cwd"] = "".into(),
            "config.json: process: cwd: ",
        ),
        (
            |it| it["process"]["cwd"] = "tmp".into(),
            "config.json: process: cwd: Cwd must be an absolute path",
        ),
        (|it| it["process"]["args"] = json!(["a\0b"]), "process.args"),
        (|it| it["process"]["env"] = json!(["A=\0"]), "process.env"),
        (
            |it| {
                it["process"]["rlimits"] = json!([{ "type": "RLIMIT_LUCK", "soft": 1, "hard": 1 }]);
            },
            "process.rlimits[0]",
        ),
        (
            |it| it["process"]["oomScoreAdj"] = 5000.into(),
            "process.oomScoreAdj",
        ),
        (
            |it| it["mounts"][0]["destination"] = "".into(),
            "config.json: mounts[0].destination",
        ),
        (
            |it| it["mounts"][0]["options"] = json!(["rw", "idmap"]),
            "mounts[0]",
        ),
        (
            |it| it["mounts"][1]["options"] = json!(["size=lots"]),
            "mounts[1]",
        ),
        (
            |it| it["mounts"][3]["type"] = "nosuchfs".into(),
            "mounts[3]",
        ),
        (
            |it| it["linux"]["namespaces"][0]["type"] = "mount".into(),
            "config.json: linux.namespaces[4]",
        ),
        (
            |it| {
                it["linux"]["namespaces"][1] = json!({ "type": "network", "path": "/nowhere/net" });
            },
            "linux.namespaces[1].path: /nowhere/net: lstat /nowhere/net: no such file or directory",
        ),
        (
            |it| {
                it["linux"]["namespaces"][1] =
                    json!({ "type": "network", "path": "/proc/self/ns/pid" });
            },
            "linux.namespaces[1].path: /proc/self/ns/pid: not a net namespace",
        ),
        (
            |it| it["linux"]["namespaces"][1] = json!({ "type": "network", "path": "/etc/passwd" }),
            "linux.namespaces[1].path: /etc/passwd: not a net namespace",
        ),
        (
            |it| {
                it["linux"]["namespaces"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({ "type": "user" }));
            },
            "linux.uidMappings: ",
        ),
        (
            |it| it["linux"]["rootfsPropagation"] = "sideways".into(),
            "linux.rootfsPropagation",
        ),
        (
            |it| {
                it["linux"]["devices"] =
                    json!([{ "path": "dev/x", "type": "c", "major": 1, "minor": 3 }]);
            },
            "linux.devices",
        ),
        (
            |it| it["linux"]["personality"] = json!({ "domain": "PDP11" }),
            "linux.personality",
        ),
        (
            |it| it["linux"]["resources"]["cpu"] = json!({ "period": 1 }),
            "linux.resources: failed to write \"1\": write ",
        ),
    ];
    for (change, why) in changes {
        judge.config(change, why);
    }
    judge.verdict();
}

#[test]
fn settings_of_the_host() {
    let judge = judge!();
    for (name, why) in [
        (
            "kernel.pid_max",
            "linux.sysctl[\"kernel.pid_max\"]: sysctl \"kernel.pid_max\" is not in a separate kernel namespace",
        ),
        ("kernel.hostname", "linux.sysctl[\"kernel.hostname\"]: "),
        ("../../etc/passwd", "linux.sysctl[\"../../etc/passwd\"]: "),
        (
            "net.no.such.setting",
            "linux.sysctl[\"net.no.such.setting\"]: cannot write the value below /proc/sys: no such file or directory",
        ),
    ] {
        judge.config(|it| it["linux"]["sysctl"] = json!({ name: "1" }), why);
    }
    let own = json!({ "type": "network", "path": "/proc/self/ns/net" });
    judge.config(
        |it| {
            it["linux"]["namespaces"][1] = own;
            it["linux"]["sysctl"] = json!({ "net.ipv4.ip_forward": "1" });
        },
        "linux.sysctl[\"net.ipv4.ip_forward\"]: sysctl \"net.ipv4.ip_forward\" not allowed in host network namespace",
    );
    judge.verdict();
}

#[test]
fn filters_that_nobody_knows() {
    let judge = judge!();
    for (more, why) in [
        (
            json!({ "flags": ["SECCOMP_FILTER_FLAG_MAYBE"] }),
            "linux.seccomp: seccomp flag SECCOMP_FILTER_FLAG_MAYBE is not known",
        ),
        (
            json!({ "architectures": ["SCMP_ARCH_PDP11"] }),
            "linux.seccomp: string SCMP_ARCH_PDP11 is not a valid arch for seccomp",
        ),
        (
            json!({ "defaultAction": "SCMP_ACT_NOTIFY" }),
            "linux.seccomp: SCMP_ACT_NOTIFY cannot be used as default action",
        ),
        (
            json!({ "syscalls": [{ "names": [""], "action": "SCMP_ACT_ERRNO" }] }),
            "linux.seccomp: empty string is not a valid syscall",
        ),
        (
            json!({ "listenerPath": "/nowhere/agent", "syscalls": [{ "names": ["mkdir"], "action": "SCMP_ACT_NOTIFY" }] }),
            "linux.seccomp.listenerPath",
        ),
    ] {
        judge.config(
            |it| {
                let mut profile = json!({ "defaultAction": "SCMP_ACT_ALLOW" });
                profile
                    .as_object_mut()
                    .unwrap()
                    .extend(more.as_object().unwrap().clone());
                it["linux"]["seccomp"] = profile;
            },
            why,
        );
    }
    judge.verdict();
}
