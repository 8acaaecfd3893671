//! Bundles, arguments and surroundings that are wrong: one line that names the field and the reason, by the exit
//! code that engines know, also in the log that they read, and nothing is left.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]

#[allow(dead_code, reason = "it is shared with the tests of escapes")]
#[path = "escapes/rig.rs"]
mod rig;

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use orlop_testkit::{leaks, skip_unless};
use rig::{Rig, works};
use serde_json::{Value, json};

/// A runtime and its directory, and what was wrong.
struct Judge {
    rig: Rig,
    wrong: RefCell<Vec<String>>,
}

impl Judge {
    fn new() -> Self {
        let rig = Rig::new();
        // Others' users look for the root file system.
        for dir in [rig.root.as_path(), rig.root.parent().unwrap()] {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self {
            rig,
            wrong: RefCell::default(),
        }
    }

    /// A configuration that is changed cannot be run, for this reason.
    fn config(&self, change: impl FnOnce(&mut Value), why: &str) {
        let mut config = self.rig.config(&["true"]);
        change(&mut config);
        let (id, bundle) = self.rig.bundle(&config);
        self.bundle(&id, &bundle, why);
    }

    /// Neither a `create` nor a `run` of a bundle.
    fn bundle(&self, id: &str, bundle: &Path, why: &str) {
        for verb in ["create", "run"] {
            let args = [
                verb.as_ref(),
                "--bundle".as_ref(),
                bundle.as_os_str(),
                id.as_ref(),
            ];
            let why = format!("orlop-run {verb} failed: {why}");
            self.refused(&args, 1, &why);
            self.nothing_is_left(id, &why);
        }
    }

    /// With a log and without.
    fn refused(&self, args: &[&OsStr], code: i32, why: &str) {
        let log = self.rig.outside("log").join("log");
        let _ = fs::remove_file(&log);
        let mut command = self.rig.command();
        command
            .arg("--log")
            .arg(&log)
            .args(["--log-format", "json"])
            .args(args);
        let err = self.told(&mut command, code, why);
        if !err.starts_with(why) || err.lines().count() != 1 {
            self.wrong(format!("wanted {why:?}\n   got {err:?}"));
        }
        let logged = fs::read_to_string(&log).unwrap_or_default();
        let errors: Vec<Value> = logged
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|line: &Value| line["level"] == "error")
            .collect();
        let [error] = &errors[..] else {
            self.wrong(format!("{why}: logged {logged:?}"));
            return;
        };
        if error["msg"] != err.strip_suffix('\n').unwrap_or_default()
            || error["time"].as_str().is_none_or(|it| it.len() < 20)
        {
            self.wrong(format!("{why}: logged {logged:?}"));
        }
        let mut command = self.rig.command();
        let err = self.told(command.args(args), code, why);
        let quoted = Value::from(why).to_string();
        let quoted = quoted.trim_end_matches('"');
        if !err.contains(&format!("level=error msg={quoted}")) {
            self.wrong(format!("wanted {quoted}\n   got {err:?}"));
        }
    }

    fn told(&self, command: &mut Command, code: i32, why: &str) -> String {
        let err = tempfile::tempfile().unwrap();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(err.try_clone().unwrap());
        let mut child = command.spawn().unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if std::time::Instant::now() > end => {
                    let _ = child.kill();
                    break child.wait().unwrap();
                }
                None => std::thread::sleep(std::time::Duration::from_millis(1)),
            }
        };
        if status.code() != Some(code) {
            self.wrong(format!("{why}: {status}"));
        }
        let mut err = err;
        std::io::Seek::rewind(&mut err).unwrap();
        std::io::read_to_string(err).unwrap()
    }

    fn nothing_is_left(&self, id: &str, why: &str) {
        let left = leaks::find(id, &[]);
        let state = self.rig.outside("state").join(id);
        if !left.is_empty() || state.exists() {
            self.wrong(format!("{why}: left {left:?} {}", state.exists()));
        }
    }

    fn wrong(&self, what: String) {
        self.wrong.borrow_mut().push(what);
    }

    fn verdict(self) {
        let wrong = self.wrong.take();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

#[test]
fn bundles_that_are_broken() {
    skip_unless!(works());
    let judge = Judge::new();
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
            "config.json: root.path: the root file system is missing".to_owned(),
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
    skip_unless!(works());
    let judge = Judge::new();
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
    skip_unless!(works());
    let judge = Judge::new();
    for (section, why) in [
        (
            "root",
            "config.json: root.path: the root file system is missing",
        ),
        ("linux", "config.json: linux: the section is missing"),
        ("process", "process: the section is missing"),
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
            "config.json: ociVersion: \"7.0.0\" is none that is understood",
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
                it["process"]["rlimits"] = json!([{ "type": "RLIMIT_LUCK", "soft": 1, "hard": 1 }])
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
                it["linux"]["namespaces"][1] = json!({ "type": "network", "path": "/nowhere/net" })
            },
            "linux.namespaces[1].path: /nowhere/net: lstat /nowhere/net: no such file or directory",
        ),
        (
            |it| {
                it["linux"]["namespaces"][1] =
                    json!({ "type": "network", "path": "/proc/self/ns/pid" })
            },
            "linux.namespaces[1].path: /proc/self/ns/pid: it is no net namespace",
        ),
        (
            |it| it["linux"]["namespaces"][1] = json!({ "type": "network", "path": "/etc/passwd" }),
            "linux.namespaces[1].path: /etc/passwd: it is no net namespace",
        ),
        (
            |it| {
                it["linux"]["namespaces"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({ "type": "user" }))
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
                    json!([{ "path": "dev/x", "type": "c", "major": 1, "minor": 3 }])
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
    skip_unless!(works());
    let judge = Judge::new();
    for (name, why) in [
        (
            "kernel.pid_max",
            "linux.sysctl[\"kernel.pid_max\"]: sysctl \"kernel.pid_max\" is not in a separate kernel namespace",
        ),
        ("kernel.hostname", "linux.sysctl[\"kernel.hostname\"]: "),
        ("../../etc/passwd", "linux.sysctl[\"../../etc/passwd\"]: "),
        (
            "net.no.such.setting",
            "linux.sysctl[\"net.no.such.setting\"]: writing it below /proc/sys: no such file or directory",
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
    skip_unless!(works());
    let judge = Judge::new();
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

#[test]
fn programs_that_are_none() {
    skip_unless!(works());
    let judge = Judge::new();
    let root = judge.rig.root.clone();
    fs::write(root.join("bin/plain"), "text").unwrap();
    fs::write(root.join("bin/format"), "\u{7f}none").unwrap();
    fs::set_permissions(root.join("bin/format"), fs::Permissions::from_mode(0o755)).unwrap();
    let cases = [
        (
            "no-such",
            "exec: \"no-such\": executable file not found in $PATH",
        ),
        (
            "/no/such",
            "exec: \"/no/such\": stat /no/such: no such file or directory",
        ),
        ("/bin", "exec: \"/bin\": is a directory"),
        ("/bin/plain", "exec: \"/bin/plain\": permission denied"),
        ("/bin/plain/x", "exec: \"/bin/plain/x\": "),
    ];
    for (program, why) in cases {
        judge.config(|it| it["process"]["args"] = json!([program]), why);
    }
    for (cwd, why) in [(
        "/bin/plain",
        "process.cwd: chdir to cwd (\"/bin/plain\") set in config.json failed: not a directory",
    )] {
        judge.config(|it| it["process"]["cwd"] = cwd.into(), why);
    }
    // Those that join a container end with another code.
    let config = judge.rig.config(&["sleep", "600"]);
    let container = judge.rig.start(&config);
    let id = container.id.clone();
    let format = [("/bin/format", "exec /bin/format: exec format error")];
    for (program, why) in cases.into_iter().chain(format) {
        let why = format!("exec failed: unable to start container process: {why}");
        judge.refused(&["exec".as_ref(), id.as_ref(), program.as_ref()], 255, &why);
    }
    let cwd = ["exec", "--cwd", "/bin/plain", &id, "true"].map(OsStr::new);
    judge.refused(&cwd, 255, "exec failed: unable to start container process: process.cwd: chdir to cwd (\"/bin/plain\")");
    let cwd = ["exec", "--user", "root", &id, "true"].map(OsStr::new);
    judge.refused(
        &cwd,
        255,
        "exec failed: --user: parsing root as int for uid failed",
    );
    let gone = ["exec", "nobody-there", "true"].map(OsStr::new);
    judge.refused(&gone, 255, "exec failed: container does not exist");
    let processes = container.exec(&[], &["busybox", "ps", "-o", "comm"]);
    assert_eq!(processes.out.lines().count(), 3, "{processes:?}");
    judge.verdict();
}

/// It is known only when the container starts, and told by what would have been the program.
#[test]
fn a_program_of_no_format() {
    skip_unless!(works());
    let rig = Rig::new();
    let program = rig.root.join("bin/format");
    fs::write(&program, "\u{7f}none").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let said = rig.run(&rig.config(&["/bin/format"]));
    assert!(!said.ok, "{said:?}");
    assert_eq!(said.err, "exec /bin/format: exec format error\n");
}

#[test]
fn hooks_that_fail() {
    skip_unless!(works());
    let judge = Judge::new();
    let outside = judge.rig.outside("hooks");
    let plain = outside.join("plain");
    fs::write(&plain, "text").unwrap();
    let plain = plain.to_str().unwrap();
    for stage in ["prestart", "createRuntime"] {
        for (hook, why) in [
            (
                json!({ "path": "/no/such" }),
                "/no/such: no such file or directory".to_owned(),
            ),
            (
                json!({ "path": plain }),
                format!("{plain}: permission denied"),
            ),
            (
                json!({ "path": "/bin/sleep", "args": ["sleep", "60"], "timeout": 1 }),
                "/bin/sleep: not finished within 1 s, killed".to_owned(),
            ),
            (
                json!({ "path": "/bin/sh", "args": ["sh", "-c", "echo so; exit 7"] }),
                "/bin/sh: exit status 7, stdout: so, stderr: ".to_owned(),
            ),
        ] {
            if stage == "createRuntime" && hook["timeout"] == 1 {
                // Both stages are run by the same lines, and each wait is a second.
                continue;
            }
            let why = format!("error running {stage} hook #0: {why}");
            judge.config(|it| it["hooks"] = json!({ stage: [hook] }), &why);
        }
    }
    for (hook, why) in [
        (
            json!({ "path": "/no/such" }),
            "error running createContainer hook #0: exit status 127 (no such program?)",
        ),
        (
            json!({ "path": plain }),
            "error running createContainer hook #0: ",
        ),
        (
            json!({ "path": "/bin/sleep", "args": ["sleep", "60"], "timeout": 1 }),
            "error running createContainer hook #0: not finished in time, killed",
        ),
        (
            json!({ "path": "relative" }),
            "hooks.createContainer[0]: path: \"relative\" is not absolute",
        ),
        (
            json!({ "path": "/bin/true", "timeout": 0 }),
            "hooks.createContainer[0]: timeout: 0 is not above 0",
        ),
    ] {
        judge.config(|it| it["hooks"] = json!({ "createContainer": [hook] }), why);
    }
    judge.verdict();
}

#[test]
fn surroundings_that_are_wrong() {
    skip_unless!(works());
    let judge = Judge::new();
    let plain = judge.rig.outside("some").join("plain");
    fs::write(&plain, "text").unwrap();
    let shown = plain.to_str().unwrap().to_owned();
    judge.config(|it| it["root"]["path"] = shown.clone().into(), "root.path");
    judge.config(|it| it["root"]["path"] = "/no/such".into(), "root.path");
    let config = judge.rig.config(&["true"]);
    let (id, bundle) = judge.rig.bundle(&config);
    for name in ["../up", "a/b", "/abs", "", ".", "..", "a b", ".seccomp"] {
        let why = format!("orlop-run create failed: invalid container ID format: {name:?}");
        let args = [
            "create".as_ref(),
            "--bundle".as_ref(),
            bundle.as_os_str(),
            name.as_ref(),
        ];
        judge.refused(&args, 1, &why);
        judge.nothing_is_left(&id, &why);
    }
    let mut terminal = judge.rig.config(&["true"]);
    terminal["process"]["terminal"] = true.into();
    fs::write(bundle.join("config.json"), terminal.to_string()).unwrap();
    for (socket, why) in [
        (
            "/no/such",
            "--console-socket /no/such: no such file or directory",
        ),
        (&shown, "--console-socket"),
    ] {
        let args = [
            "create",
            "--console-socket",
            socket,
            "--bundle",
            bundle.to_str().unwrap(),
            &id,
        ];
        let why = format!("orlop-run create failed: {why}");
        judge.refused(&args.map(OsStr::new), 1, &why);
        judge.nothing_is_left(&id, &why);
    }
    judge.verdict();
}

#[test]
fn directories_of_states_that_are_somebody_elses() {
    skip_unless!(works());
    let judge = Judge::new();
    let config = judge.rig.config(&["true"]);
    let (id, bundle) = judge.rig.bundle(&config);
    let root = judge.rig.outside("state");
    for (owner, mode, why) in [
        (
            65534,
            0o755,
            "it belongs to user 65534, who could change what is kept there",
        ),
        (
            0,
            0o777,
            "others may write to it (mode 777): give a directory of your own",
        ),
        (0, 0o775, "others may write to it (mode 775)"),
    ] {
        chown(&root, Some(owner), None).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(mode)).unwrap();
        let why = format!("--root {}: {why}", root.display());
        judge.bundle(&id, &bundle, &why);
    }
    fs::remove_dir_all(&root).unwrap();
    fs::write(&root, "text").unwrap();
    let why = format!("--root {}: ", root.display());
    for verb in ["create", "run"] {
        let args = [
            verb.as_ref(),
            "--bundle".as_ref(),
            bundle.as_os_str(),
            id.as_ref(),
        ];
        // The rig makes the directory before each call.
        let mut command = Command::new(&judge.rig.runtime);
        command.arg("--root").arg(&root).args(args as [&OsStr; 4]);
        let why = format!("msg=\"orlop-run {verb} failed: {why}");
        let err = judge.told(&mut command, 1, &why);
        if !err.contains(&why) || err.lines().count() != 1 {
            judge.wrong(format!("wanted {why:?}\n   got {err:?}"));
        }
    }
    fs::remove_file(&root).unwrap();
    judge.verdict();
}
