//! Units of a real systemd; nothing to see on a machine it did not start.

use std::fs;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use orlop_cgroup::{
    Cgroup, CgroupPath, Hierarchies, Limits, Property, Systemd, Value, limits_as_properties,
};
use orlop_testkit::assert_contains;
use orlop_testkit::machine::{note_skip, test_name};

/// A slice that ends with the test.
struct Scene {
    systemd: Systemd,
    hierarchies: Arc<Hierarchies>,
    slice: String,
    children: Vec<Child>,
}

impl Scene {
    fn new(name: &str) -> Option<Self> {
        if !Systemd::is_running() {
            note_skip(&test_name(), "systemd does not run here");
            return None;
        }
        Some(Self {
            systemd: Systemd::connect().unwrap(),
            hierarchies: Arc::new(Hierarchies::detect().unwrap()),
            slice: format!("orloptest{}_{name}.slice", std::process::id()),
            children: Vec::new(),
        })
    }

    fn slice(&self) -> Cgroup {
        let path = CgroupPath::of_slice(&self.slice).unwrap();
        Cgroup::new(Arc::clone(&self.hierarchies), path)
    }

    fn scope(&self) -> Cgroup {
        let path = self.slice().path().child("orlop-c1.scope").unwrap();
        Cgroup::new(Arc::clone(&self.hierarchies), path)
    }

    fn child(&mut self) -> u32 {
        self.children
            .push(Command::new("sleep").arg("100").spawn().unwrap());
        self.children.last().unwrap().id()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.systemd.stop("orlop-c1.scope");
        let _ = self.systemd.stop(&self.slice);
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn read(cgroup: &Cgroup, file: &str) -> String {
    let path = cgroup.directory("cgroup").unwrap().join(file);
    fs::read_to_string(path).unwrap().trim().to_owned()
}

#[test]
fn a_scope_in_a_slice_lives_and_ends() {
    let Some(mut scene) = Scene::new("live") else {
        return;
    };
    let (slice, scope) = (scene.slice(), scene.scope());
    scene.systemd.start_slice(&slice, &[]).unwrap();
    // Once more is no failure.
    scene.systemd.start_slice(&slice, &[]).unwrap();

    let pid = scene.child();
    let limits = Limits {
        memory: Some(64 << 20),
        cpu_shares: Some(512),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        pids: Some(99),
        ..Limits::default()
    };
    scene
        .systemd
        .start_scope(&scope, &[pid], &limits_as_properties(&limits))
        .unwrap();
    assert_eq!(scope.processes().unwrap(), [pid as i32]);
    assert_eq!(read(&scope, "memory.max"), (64 << 20).to_string());
    assert_eq!(read(&scope, "pids.max"), "99");
    assert_eq!(read(&scope, "cpu.max"), "50000 100000");
    assert_eq!(
        read(&scope, "cpu.weight"),
        orlop_cgroup::cpu_weight(512).to_string()
    );

    let more = Limits {
        memory: Some(128 << 20),
        ..Limits::default()
    };
    scene
        .systemd
        .set("orlop-c1.scope", &limits_as_properties(&more))
        .unwrap();
    assert_eq!(read(&scope, "memory.max"), (128 << 20).to_string());

    // It is ours to make cgroups in.
    let below = Cgroup::new(
        Arc::clone(&scene.hierarchies),
        scope.path().child("below").unwrap(),
    );
    below.create().unwrap();
    below.remove(Duration::from_secs(5)).unwrap();

    scene.systemd.stop("orlop-c1.scope").unwrap();
    orlop_testkit::block_until!(Duration::from_secs(20), !scope.exists(), "the scope ends");
    scene.systemd.stop("orlop-c1.scope").unwrap();
}

#[test]
fn a_refusal_says_what_systemd_says() {
    let Some(mut scene) = Scene::new("refusal") else {
        return;
    };
    let bad = Property::new("NoSuchProperty", Value::Bool(true));
    let slice = scene.slice();
    let error = scene
        .systemd
        .start_slice(&slice, &[bad])
        .unwrap_err()
        .to_string();
    assert_contains!(error, "StartTransientUnit", "NoSuchProperty");
}
