//! Limits of containers: set, changed, told, and reached; by the command line, in the kernel's files.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use orlop_testkit::machine::{is_cgroup_v2 as is_v2, is_systemd, note_skip, test_name};
use orlop_testkit::process::Killed;
use serde_json::{Value, json};

/// A container that ends with the test.
struct Container {
    runtime: PathBuf,
    dir: tempfile::TempDir,
    id: String,
    systemd: bool,
}

impl Container {
    /// Running `script`, with these limits.
    fn run(script: &str, resources: &Value) -> Self {
        let container = Self::of(own(), script, resources, false);
        container.start();
        container
    }

    fn of(runtime: PathBuf, script: &str, resources: &Value, systemd: bool) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = format!("orlop-limits-{}-{number}", std::process::id());
        let dir = tempfile::tempdir().unwrap();
        let rootfs = dir.path().join("rootfs");
        for name in ["proc", "usr", "dev"] {
            fs::create_dir_all(rootfs.join(name)).unwrap();
        }
        for name in ["bin", "lib", "lib64"] {
            symlink(format!("usr/{name}"), rootfs.join(name)).unwrap();
        }
        let cgroup = if systemd {
            format!("orloplimits{}.slice:orlop:{id}", std::process::id())
        } else {
            format!("/{id}/container")
        };
        let config = json!({
            "ociVersion": "1.2.0",
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": ["/bin/sh", "-c", script],
                "cwd": "/",
                "env": ["PATH=/usr/bin:/bin"],
            },
            "root": {"path": "rootfs"},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/usr", "type": "none", "source": "/usr", "options": ["rbind", "ro"]},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            ],
            "annotations": {"org.systemd.property.TimeoutStopUSec": "uint64 7000000"},
            "linux": {
                "namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "cgroup"}],
                "cgroupsPath": cgroup,
                "resources": resources,
            },
        });
        fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
        Self {
            runtime,
            dir,
            id,
            systemd,
        }
    }

    fn start(&self) {
        let dir = self.dir.path().to_str().unwrap();
        // Its output is nobody's who waits for its end.
        let mut command = self.command();
        command.args(["run", "--detach", "--bundle", dir, &self.id]);
        let log = fs::File::create(self.dir.path().join("output")).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let done = command.status().unwrap();
        let said = fs::read_to_string(self.dir.path().join("output")).unwrap();
        assert!(done.success(), "{said}");
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.runtime);
        command.arg("--root").arg(self.dir.path().join("state"));
        if self.systemd {
            command.arg("--systemd-cgroup");
        }
        command
    }

    /// A command about it.
    fn call(&self, arguments: &[&str]) -> Output {
        let mut command = self.command();
        let (verb, flags) = arguments.split_first().unwrap();
        command
            .arg(verb)
            .args(flags)
            .arg(&self.id)
            .stdin(Stdio::null());
        command.output().unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.call(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a command says that is refused.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.call(arguments);
        assert!(!output.status.success(), "{arguments:?} was done");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn kill(&self) {
        let mut command = self.command();
        assert!(
            command
                .args(["kill", &self.id, "KILL"])
                .status()
                .unwrap()
                .success()
        );
    }

    fn state(&self) -> Value {
        serde_json::from_str(&self.ok(&["state"])).unwrap()
    }

    fn pid(&self) -> String {
        self.state()["pid"].to_string()
    }

    /// The directory with a controller's files, as the kernel tells where its process is.
    fn cgroup(&self, controller: &str) -> PathBuf {
        let text = fs::read_to_string(format!("/proc/{}/cgroup", self.pid())).unwrap();
        let path = |name: &str| {
            text.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let (controllers, path) = (parts.next()?, parts.next()?);
                controllers
                    .split(',')
                    .any(|it| it == name)
                    .then(|| (controllers, path.trim_start_matches('/')))
            })
        };
        let root = Path::new("/sys/fs/cgroup");
        if is_v2() {
            return root.join(path("").unwrap().1);
        }
        let (controllers, path) = path(controller).unwrap();
        root.join(controllers).join(path)
    }

    fn file(&self, v1: (&str, &str), v2: &str) -> String {
        let (controller, name) = if is_v2() { ("", v2) } else { v1 };
        let path = self.cgroup(controller).join(name);
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    fn memory(&self) -> String {
        self.file(("memory", "memory.limit_in_bytes"), "memory.max")
    }

    fn pids(&self) -> String {
        self.file(("pids", "pids.max"), "pids.max")
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.call(&["delete", "--force"]);
        if self.systemd {
            let slice = format!("orloplimits{}.slice", std::process::id());
            let _ = Command::new("systemctl").args(["stop", &slice]).status();
        }
        for entry in fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
            let _ = fs::remove_dir(entry.path().join(&self.id));
        }
        let _ = fs::remove_dir(Path::new("/sys/fs/cgroup").join(&self.id));
    }
}

/// The program that is tested, which is elsewhere in a virtual machine.
fn own() -> PathBuf {
    let elsewhere = std::env::var_os("ORLOP_RUN_BIN");
    elsewhere.map_or_else(|| env!("CARGO_BIN_EXE_orlop-run").into(), PathBuf::from)
}

fn limits() -> Value {
    json!({
        "memory": {"limit": 64 << 20},
        "cpu": {"quota": 50_000, "period": 100_000},
        "pids": {"limit": 20},
    })
}

#[test]
fn a_paused_container_stands_still_until_it_is_resumed() {
    let container = Container::run("exec sleep 100", &json!({}));
    container.ok(&["pause"]);
    assert_eq!(container.state()["status"], "paused");
    assert!(
        container
            .refused(&["pause"])
            .contains("container not running")
    );
    container.ok(&["resume"]);
    assert_eq!(container.state()["status"], "running");
    assert!(
        container
            .refused(&["resume"])
            .contains("container not paused")
    );
    // A paused one can be deleted all the same.
    container.ok(&["pause"]);
    container.ok(&["delete", "--force"]);
    assert!(
        container
            .refused(&["state"])
            .contains("container does not exist")
    );
}

#[test]
fn limits_are_changed_while_it_runs_and_the_others_stay() {
    let container = Container::run("exec sleep 100", &limits());
    assert_eq!(container.memory(), (64 << 20).to_string());
    container.ok(&["update", "--memory", "32m", "--cpu-quota", "20000"]);
    assert_eq!(container.memory(), (32 << 20).to_string());
    assert_eq!(container.pids(), "20");
    let cpu = container.file(("cpu", "cpu.cfs_quota_us"), "cpu.max");
    assert_eq!(cpu, if is_v2() { "20000 100000" } else { "20000" });
    let mut command = container.command();
    command
        .args(["update", "--resources", "-", &container.id])
        .stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(br#"{"pids": {"limit": 7}, "memory": null}"#)
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(container.pids(), "7");
    container.ok(&["update", "--pids-limit", "-1"]);
    assert_eq!(container.pids(), "max");
}

#[test]
fn an_update_that_makes_no_sense_changes_nothing() {
    let container = Container::run("exec sleep 100", &limits());
    for (arguments, said) in [
        (
            &["update", "--memory", "much"][..],
            "invalid value for memory: \\\"much\\\" is not a size",
        ),
        (
            &["update", "--cpu-quota", "1.5"],
            "invalid value for cpu-quota",
        ),
        (&["update", "--cpuset-cpus", "4000"], "failed to write"),
        (
            &["update", "--l3-cache-schema", "L3:0=f"],
            "Intel RDT/CAT: l3 cache schema is not enabled",
        ),
        (&["update", "--resources", "/nowhere"], "/nowhere"),
        (
            &["update", "--nonsense", "1"],
            "flag provided but not defined",
        ),
    ] {
        let error = container.refused(arguments);
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
    assert_eq!(container.memory(), (64 << 20).to_string());
    container.kill();
    wait_until(|| container.state()["status"] == "stopped");
    assert!(
        container
            .refused(&["update", "--pids-limit", "5"])
            .contains("container not running")
    );
}

#[test]
fn what_it_uses_is_told_as_runc_tells_it() {
    let container = Container::run("exec sleep 100", &limits());
    let event: Value = serde_json::from_str(&container.ok(&["events", "--stats"])).unwrap();
    assert_eq!(event["type"], "stats");
    assert_eq!(event["id"], container.id);
    let data = &event["data"];
    assert_eq!(data["memory"]["usage"]["limit"], 64 << 20);
    assert!(data["memory"]["usage"]["usage"].as_u64().unwrap() > 0);
    assert!(data["cpu"]["usage"]["total"].as_u64().unwrap() > 0);
    assert_eq!(data["pids"], json!({"current": 1, "limit": 20}));
    let pid = container.pid();
    assert_eq!(
        container.ok(&["ps", "--format", "json"]),
        format!("[{pid}]\n")
    );
    let table = container.ok(&["ps"]);
    assert!(
        table.starts_with("UID") && table.contains("sleep 100"),
        "{table}"
    );
    assert_eq!(table.lines().count(), 2);
}

#[test]
fn whoever_watches_is_told_when_memory_runs_out() {
    let script =
        "while [ ! -e /go ]; do sleep 0.1; done; (x=a; while :; do x=$x$x; done); exec sleep 100";
    let resources = json!({"memory": {"limit": 16 << 20, "swap": 16 << 20}});
    let container = Container::run(script, &resources);
    let mut command = container.command();
    command.args(["events", "--interval", "100ms", &container.id]);
    let mut events = Killed(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(events.0.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["type"], "stats");
    fs::write(container.dir.path().join("rootfs/go"), "").unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let event = next();
        if event["type"] == "oom" {
            assert_eq!(event, json!({"type": "oom", "id": container.id}));
            break;
        }
        assert!(Instant::now() < deadline, "it is not told");
    }
    container.kill();
    // It ends with the container, though nobody reads what it tells.
    wait_until(|| events.0.try_wait().unwrap().is_some());
    assert!(events.0.wait().unwrap().success());
}

#[test]
fn all_files_are_as_runc_would_have_them() {
    let runc = match orlop_testkit::machine::program("runc") {
        Ok(runc) => runc,
        Err(reason) => return note_skip(&test_name(), &reason),
    };
    let mut resources = limits();
    resources["devices"] = json!([
        {"allow": false, "access": "rwm"},
        {"allow": true, "type": "c", "major": 10, "minor": 229, "access": "rw"},
        {"allow": true, "type": "b", "major": 7, "access": "r"},
    ]);
    resources["memory"]["reservation"] = json!(32 << 20);
    resources["cpu"]["cpus"] = json!("0");
    let theirs = Container::of(runc, "exec sleep 100", &resources, false);
    theirs.start();
    let ours = Container::run("exec sleep 100", &resources);
    let (theirs, ours) = (settings(&theirs), settings(&ours));
    assert!(ours.len() > 20, "{ours:?}");
    assert_eq!(ours, theirs);
}

/// What can be written to in its cgroup, and does not change by itself.
fn settings(container: &Container) -> BTreeMap<String, String> {
    let controllers: &[&str] = if is_v2() {
        &[""]
    } else {
        &[
            "cpu",
            "cpuacct",
            "cpuset",
            "memory",
            "devices",
            "freezer",
            "blkio",
            "pids",
            "name=systemd",
        ]
    };
    let mut all = BTreeMap::new();
    for controller in controllers {
        let dir = match *controller {
            "name=systemd" => Path::new("/sys/fs/cgroup/systemd")
                .join(&container.id)
                .join("container"),
            controller => container.cgroup(controller),
        };
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let moves = [
                "usage",
                "stat",
                "current",
                "peak",
                "pressure",
                "procs",
                "tasks",
                "threads",
                "events",
                "numa",
                "event_control",
                "force_empty",
                "io_serv",
                "sectors",
                "reclaim",
                "kill",
            ];
            // Older ones of theirs weigh shares in another way.
            if name != "cpu.weight"
                && name != "cpu.weight.nice"
                && !moves.iter().any(|it| name.contains(it))
                && let Ok(text) = fs::read_to_string(entry.path())
            {
                all.insert(format!("{controller}/{name}"), text);
            }
        }
    }
    all
}

#[test]
fn systemd_knows_its_limits_and_keeps_them() {
    if !is_systemd() {
        return note_skip(&test_name(), "systemd does not run here");
    }
    let mut resources = limits();
    // There is room for the container's process alone.
    resources["pids"]["limit"] = json!(1);
    let container = Container::of(own(), "exec sleep 100", &resources, true);
    container.start();
    let show = |property: &str| {
        let unit = format!("orlop-{}.scope", container.id);
        let output = Command::new("systemctl")
            .args(["show", "--value", "-p", property, &unit])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(show("ActiveState"), "active");
    assert_eq!(
        show("Slice"),
        format!("orloplimits{}.slice", std::process::id())
    );
    assert_eq!(show("MemoryMax"), (64 << 20).to_string());
    assert_eq!(show("CPUQuotaPerSecUSec"), "500ms");
    assert_eq!(show("TasksMax"), "1");
    assert_eq!(show("TimeoutStopUSec"), "7s");
    assert_eq!(show("Delegate"), "yes");
    assert_eq!(container.pids(), "1");
    // Its own cgroup is all that it sees.
    assert_eq!(
        container.ok(&["ps", "--format", "json"]),
        format!("[{}]\n", container.pid())
    );
    container.ok(&[
        "update",
        "--memory",
        "32m",
        "--cpu-quota",
        "25001",
        "--pids-limit",
        "9",
    ]);
    assert!(
        Command::new("systemctl")
            .arg("daemon-reload")
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(container.memory(), (32 << 20).to_string());
    assert_eq!(
        container.file(("cpu", "cpu.cfs_quota_us"), "cpu.max"),
        "26000 100000"
    );
    assert_eq!(container.pids(), "9");
    container.kill();
    wait_until(|| container.state()["status"] == "stopped");
    container.ok(&["delete"]);
    wait_until(|| show("ActiveState") == "inactive");
}

fn wait_until(mut done: impl FnMut() -> bool) {
    orlop_testkit::block_until!(Duration::from_secs(20), done(), "not in time");
}
