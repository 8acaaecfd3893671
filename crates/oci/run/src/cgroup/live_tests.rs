//! Tests with real cgroups of this machine: each test makes its own and removes it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use orlop_oci_types::{Cpu, Memory, Pids, Resources};

use super::life::State;
use super::place::Driver;
use super::*;

/// A cgroup that is removed at the end of the test.
struct Own {
    id: String,
    path: String,
    resources: Resources,
    cgroup: Cgroup,
}

impl Own {
    fn new(resources: Resources) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = format!("orlop-run-test-{}-{number}", std::process::id());
        let path = format!("/{id}/inner");
        let cgroup = Cgroup::plan(&wanted(&id, &path, &resources)).unwrap();
        Self {
            id,
            path,
            resources,
            cgroup,
        }
    }

    fn wanted(&self) -> Wanted<'_> {
        wanted(&self.id, &self.path, &self.resources)
    }

    fn make(&self) -> crate::error::Result<Entry> {
        self.cgroup.make(&self.wanted())
    }

    fn read(&self, controller: &str, file: &str) -> String {
        let path = self.cgroup.dir(controller).unwrap().join(file);
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    /// Spawns a shell that runs a script.
    fn spawn(&self, script: &str) -> Child {
        let mut child = Command::new("/bin/sh");
        child.args(["-c", script]).stdout(Stdio::null());
        let child = child.spawn().unwrap();
        for dir in self.cgroup.paths().values() {
            let mut file = fs::File::options()
                .write(true)
                .open(dir.join("cgroup.procs"))
                .unwrap();
            file.write_all(child.id().to_string().as_bytes()).unwrap();
        }
        child
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.cgroup.kill_all(rustix::process::Signal::KILL);
        let _ = self.cgroup.remove();
        for dir in self.cgroup.paths().values() {
            let _ = fs::remove_dir(dir.parent().unwrap());
        }
    }
}

fn wanted<'a>(id: &'a str, path: &'a str, resources: &'a Resources) -> Wanted<'a> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    Wanted {
        id,
        path,
        driver: Driver::Files,
        rootless: false,
        resources: Some(resources),
        annotations: &NONE,
        devices: &[],
    }
}

fn some_limits() -> Resources {
    Resources {
        memory: Some(Memory {
            limit: Some(64 << 20),
            ..Memory::default()
        }),
        cpu: Some(Cpu {
            shares: Some(512),
            quota: Some(20_000),
            period: Some(50_000),
            ..Cpu::default()
        }),
        pids: Some(Pids { limit: Some(0) }),
        ..Resources::default()
    }
}

#[test]
fn limits_are_there_before_anybody_is() {
    let own = Own::new(some_limits());
    let entry = own.make().unwrap();
    assert_eq!(own.read("pids", "pids.max"), "1");
    if own.cgroup.is_v2() {
        assert_eq!(own.read("memory", "memory.max"), "67108864");
        assert_eq!(own.read("cpu", "cpu.max"), "20000 50000");
        assert_eq!(own.read("cpu", "cpu.weight"), "59");
        assert!(entry.into.is_some() && entry.tasks.is_empty());
    } else {
        assert_eq!(own.read("memory", "memory.limit_in_bytes"), "67108864");
        assert_eq!(own.read("cpu", "cpu.cfs_quota_us"), "20000");
        assert_eq!(own.read("cpu", "cpu.cfs_period_us"), "50000");
        assert_eq!(own.read("cpu", "cpu.shares"), "512");
        assert!(!own.read("cpuset", "cpuset.cpus").is_empty());
        assert!(!own.read("cpuset", "cpuset.mems").is_empty());
        let devices = own.read("devices", "devices.list");
        assert!(
            devices.contains("c 1:3 rwm") && !devices.contains("a *:* rwm"),
            "{devices}"
        );
        let of_version_1 = own.cgroup.places.iter().filter(|it| it.controllers != [""]);
        assert_eq!(entry.tasks.len(), of_version_1.count());
    }
    own.cgroup.remove().unwrap();
    assert!(own.cgroup.paths().values().all(|dir| !dir.exists()));
}

#[test]
fn one_with_processes_or_a_frozen_one_is_refused() {
    let own = Own::new(Resources::default());
    own.make().unwrap();
    // An empty cgroup may be left over from an earlier container.
    own.make().unwrap();
    own.cgroup.freeze().unwrap();
    let error = own.make().unwrap_err().to_string();
    assert_eq!(error, "container's cgroup unexpectedly frozen");
    own.cgroup.thaw().unwrap();
    let mut child = own.spawn("exec sleep 100");
    let error = own.make().unwrap_err().to_string();
    assert_eq!(
        error,
        "container's cgroup is not empty: 1 process(es) found"
    );
    own.cgroup.kill_all(rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
}

#[test]
fn what_failed_half_way_leaves_nothing() {
    let mut own = Own::new(Resources::default());
    own.resources.cpu = Some(Cpu {
        cpus: "4000".into(),
        ..Cpu::default()
    });
    let error = own.make().unwrap_err().to_string();
    assert!(
        error.starts_with("linux.resources: failed to write \"4000\": write /"),
        "{error}"
    );
    for dir in own.cgroup.paths().values() {
        assert!(!dir.exists(), "{}", dir.display());
    }
}

#[test]
fn nested_cgroups_are_killed_and_removed() {
    let own = Own::new(Resources::default());
    own.make().unwrap();
    let dir = own.cgroup.dir("freezer").unwrap().join("a/b/c");
    fs::create_dir_all(&dir).unwrap();
    // A process that keeps forking.
    let mut child = own.spawn("while :; do /bin/sleep 0.01 & done");
    fs::write(dir.join("cgroup.procs"), child.id().to_string()).unwrap();
    own.cgroup.kill_all(rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
    own.cgroup.remove().unwrap();
    assert!(!dir.exists());
}

#[test]
fn processes_stand_still_and_go_on() {
    let own = Own::new(Resources::default());
    own.make().unwrap();
    let mut child = own.spawn("exec sleep 100");
    assert_eq!(own.cgroup.pids(true).unwrap(), [child.id() as i32]);
    assert_eq!(own.cgroup.state().unwrap(), State::Thawed);
    own.cgroup.freeze().unwrap();
    assert_eq!(own.cgroup.state().unwrap(), State::Frozen);
    own.cgroup.thaw().unwrap();
    assert_eq!(own.cgroup.state().unwrap(), State::Thawed);
    own.cgroup.kill_all(rustix::process::Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(15)
    );
    assert!(own.cgroup.pids(true).unwrap().is_empty());
}

#[test]
fn what_is_not_said_in_an_update_stays() {
    let own = Own::new(some_limits());
    own.make().unwrap();
    let update = Resources {
        cpu: Some(Cpu {
            quota: Some(30_000),
            ..Cpu::default()
        }),
        memory: Some(Memory {
            limit: Some(32 << 20),
            ..Memory::default()
        }),
        ..Resources::default()
    };
    own.cgroup.update(&update).unwrap();
    assert_eq!(own.read("pids", "pids.max"), "1");
    if own.cgroup.is_v2() {
        assert_eq!(own.read("memory", "memory.max"), "33554432");
        assert_eq!(own.read("cpu", "cpu.max"), "30000 50000");
    } else {
        assert_eq!(own.read("memory", "memory.limit_in_bytes"), "33554432");
        assert_eq!(own.read("cpu", "cpu.cfs_quota_us"), "30000");
        assert_eq!(own.read("cpu", "cpu.cfs_period_us"), "50000");
        assert_eq!(own.read("cpu", "cpu.shares"), "512");
    }
}

#[test]
fn a_controller_that_is_not_here_is_named() {
    let own = Own::new(Resources::default());
    if own.cgroup.is_v2() || own.cgroup.dir("net_cls").is_some() {
        orlop_testkit::skip!("needs cgroups of version 1 without net_cls");
    }
    let network = orlop_oci_types::NetworkClass {
        class_id: Some(7),
        ..Default::default()
    };
    let own = Own::new(Resources {
        network: Some(network),
        ..Resources::default()
    });
    let error = own.make().unwrap_err().to_string();
    assert_eq!(
        error,
        "linux.resources: cannot set net_cls limit: container could not join or create cgroup"
    );
}
/// Returns a cgroup in the v2 tree, which on a v1 machine has few controllers but can still hold, freeze, kill, and
/// restrict devices.
fn in_version_2(test: &str) -> Option<Own> {
    let own = Own::new(Resources::default());
    let place = own
        .cgroup
        .places
        .iter()
        .find(|it| it.controllers.iter().all(String::is_empty));
    let Some(place) = place else {
        orlop_testkit::machine::note_skip(test, "there is no cgroup of version 2 here");
        return None;
    };
    let place = place::Place {
        controllers: Vec::new(),
        ..place.clone()
    };
    let cgroup = Cgroup {
        version: 2,
        places: vec![place],
        ..own.cgroup.clone()
    };
    Some(Own {
        id: own.id.clone(),
        path: own.path.clone(),
        resources: Resources::default(),
        cgroup,
    })
}

#[test]
fn version_2_keeps_processes_from_devices_that_they_may_not_use() {
    let Some(mut own) =
        in_version_2("version_2_keeps_processes_from_devices_that_they_may_not_use")
    else {
        return;
    };
    let rule = |allow, major, minor, access: &str| orlop_oci_types::DeviceRule {
        allow,
        kind: Some(orlop_oci_types::DeviceKind::Char),
        major: Some(major),
        minor: Some(minor),
        access: access.into(),
    };
    // kmsg is not a default device.
    let read = || {
        let mut child = own.spawn("sleep 0.2; : 3< /dev/null || exit 3; : 3< /dev/kmsg");
        child.wait().unwrap().code()
    };
    own.make().unwrap();
    assert_eq!(read(), Some(2), "kmsg can be read");
    own.resources.devices = vec![rule(true, 1, 11, "r")];
    // The earlier program must be removed, or it would still forbid.
    let read = || {
        let mut child = own.spawn("sleep 0.2; : 3< /dev/null || exit 3; : 3< /dev/kmsg");
        child.wait().unwrap().code()
    };
    own.make().unwrap();
    assert_eq!(read(), Some(0), "kmsg cannot be read");
}

#[test]
fn version_2_is_entered_by_its_directory_and_killed_at_once() {
    let Some(own) = in_version_2("version_2_is_entered_by_its_directory_and_killed_at_once") else {
        return;
    };
    let entry = own.make().unwrap();
    assert!(entry.into.is_some() && entry.tasks.is_empty());
    let mut child = own.spawn("exec sleep 100");
    own.cgroup.freeze().unwrap();
    assert_eq!(own.cgroup.state().unwrap(), State::Frozen);
    let error = own.make().unwrap_err().to_string();
    assert_eq!(
        error,
        "container's cgroup is not empty: 1 process(es) found"
    );
    own.cgroup.kill_all(rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
    own.cgroup.remove().unwrap();
    assert!(own.cgroup.paths().values().all(|dir| !dir.exists()));
}

#[test]
fn limits_of_memory_and_swap_grow_and_shrink_together() {
    let memory = |bytes: i64| Memory {
        limit: Some(bytes),
        swap: Some(bytes),
        ..Memory::default()
    };
    let resources = |bytes| Resources {
        memory: Some(memory(bytes)),
        ..Resources::default()
    };
    let own = Own::new(resources(64 << 20));
    own.make().unwrap();
    for bytes in [128 << 20, 32 << 20, 64 << 20] {
        own.cgroup.update(&resources(bytes)).unwrap();
        let file = if own.cgroup.is_v2() {
            "memory.max"
        } else {
            "memory.memsw.limit_in_bytes"
        };
        assert_eq!(own.read("memory", file), bytes.to_string());
    }
}

#[test]
fn a_quota_and_its_period_fit_what_is_above_after_each_write() {
    let cpu = |quota, period| Resources {
        cpu: Some(Cpu {
            quota: Some(quota),
            period: Some(period),
            ..Cpu::default()
        }),
        ..Resources::default()
    };
    let above = Own::new(cpu(50_000, 100_000));
    above.make().unwrap();
    let path = format!("{}/below", above.path);
    let limits = cpu(40_000, 100_000);
    let below = wanted(&above.id, &path, &limits);
    let cgroup = Cgroup::plan(&below).unwrap();
    cgroup.make(&below).unwrap();
    // For a moment the old quota would be four fifths of a CPU.
    cgroup.update(&cpu(10_000, 50_000)).unwrap();
    let error = cgroup.update(&cpu(90_000, 100_000));
    cgroup.remove().unwrap();
    // Cgroup v2 lets the parent cgroup do the throttling.
    assert_eq!(error.is_err(), !above.cgroup.is_v2());
}

#[test]
fn who_joins_goes_where_the_container_has_gone() {
    let Some(own) = in_version_2("who_joins_goes_where_the_container_has_gone") else {
        return;
    };
    own.make().unwrap();
    let dir = own.cgroup.dir("").unwrap().to_owned();
    let inner = dir.join("init.scope");
    fs::create_dir(&inner).unwrap();
    let mut child = own.spawn("exec sleep 100");
    let pid = child.id() as i32;
    let same = |entry: &Entry, dir: &std::path::Path| {
        let found = rustix::fs::fstat(entry.into.as_ref().unwrap()).unwrap();
        found.st_ino == std::os::unix::fs::MetadataExt::ino(&fs::metadata(dir).unwrap())
    };
    assert!(same(&own.cgroup.entry(&[], pid).unwrap(), &dir));
    fs::write(inner.join("cgroup.procs"), pid.to_string()).unwrap();
    assert!(same(&own.cgroup.entry(&[], pid).unwrap(), &dir));
    // From now on no process may be in the cgroup itself.
    let controllers = fs::read_to_string(dir.join("cgroup.controllers")).unwrap();
    let first = controllers.split_whitespace().next().unwrap();
    fs::write(dir.join("cgroup.subtree_control"), format!("+{first}")).unwrap();
    assert!(same(&own.cgroup.entry(&[], pid).unwrap(), &inner));
    let named = ["/init.scope".to_owned()];
    assert!(same(&own.cgroup.entry(&named, 1).unwrap(), &inner));
    own.cgroup.kill_all(rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
}

#[test]
fn a_process_can_join_cgroups_below_the_container_s() {
    let own = Own::new(Resources::default());
    own.make().unwrap();
    let refused = |below: &[&str]| {
        let below: Vec<String> = below.iter().map(|it| (*it).to_owned()).collect();
        own.cgroup.entry(&below, 1).unwrap_err().to_string()
    };
    assert_eq!(refused(&["../../x"]), "bad sub cgroup path: ../../x");
    assert!(refused(&["nowhere"]).ends_with("nowhere: no such file or directory"));
    assert_eq!(
        refused(&["a", "b"]),
        "invalid --cgroup argument: a (missing <controller>: prefix)"
    );
    if own.cgroup.is_v2() {
        assert!(refused(&["memory:x"]).contains("cgroup v2 has a single hierarchy"));
        return;
    }
    assert_eq!(
        refused(&["memory:x", "cpu,memory:y"]),
        "invalid --cgroup argument(s): controller memory specified multiple times"
    );
    assert_eq!(refused(&["soul:x"]), "unknown controller soul in --cgroup");
    let dir = own.cgroup.dir("memory").unwrap().join("x");
    fs::create_dir(&dir).unwrap();
    let entry = own.cgroup.entry(&["memory:x".to_owned()], 1).unwrap();
    let mut child = own.spawn("exec sleep 100");
    // As if the child wrote it itself.
    for tasks in &entry.tasks {
        rustix::io::write(tasks, child.id().to_string().as_bytes()).unwrap();
    }
    let listed = fs::read_to_string(dir.join("cgroup.procs")).unwrap();
    assert_eq!(listed.trim(), child.id().to_string());
    assert_eq!(own.cgroup.pids(false).unwrap(), [child.id() as i32]);
    own.cgroup.kill_all(rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
}
