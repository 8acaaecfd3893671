//! Limits: what was asked for is in the kernel's files and in the status, before and after an
//! update.

use std::collections::HashMap;

use orlop_cri_api::v1::{LinuxContainerResources, UpdateContainerResourcesRequest};
use orlop_testkit::machine::{has_program, is_cgroup_v2};
use orlop_testkit::{Node, Scratch};

use crate::restart::before_create;
use crate::world::{World, cgroup_of, ours, world};

/// What the files of one container say, by name.
struct Files<'a> {
    world: &'a World,
    id: String,
}

impl Files<'_> {
    async fn read(&self, v1: &str, v2: &str) -> String {
        let file = if is_cgroup_v2() { v2 } else { v1 };
        let path = format!("/sys/fs/cgroup/{file}");
        let output = self.world.cri.exec(&self.id, &["cat", &path]).await;
        String::from_utf8_lossy(&output.expect("exec").stdout)
            .trim()
            .to_owned()
    }

    async fn update(&self, resources: LinuxContainerResources) {
        let request = UpdateContainerResourcesRequest {
            container_id: self.id.clone(),
            linux: Some(resources),
            ..UpdateContainerResourcesRequest::default()
        };
        let mut client = self.world.cri.runtime();
        let updated = client.update_container_resources(request).await;
        updated.expect("update");
    }

    async fn status(&self) -> LinuxContainerResources {
        let status = self.world.cri.status(&self.id).await.expect("status");
        let resources = status.resources.and_then(|resources| resources.linux);
        resources.expect("resources of Linux")
    }
}

#[tokio::test]
async fn limits_reach_kernel_and_status_with_runc() {
    let world = ours!();
    limits_reach_kernel_and_status(world).await;
}

#[tokio::test]
async fn limits_reach_kernel_and_status_with_crun() {
    orlop_testkit::skip_unless!(has_program("crun"));
    let world = world!(Node::orlop().runtime("crun"));
    limits_reach_kernel_and_status(world).await;
}

async fn limits_reach_kernel_and_status(world: World) {
    let asked = LinuxContainerResources {
        cpu_shares: 1024,
        cpu_quota: 50_000,
        cpu_period: 100_000,
        memory_limit_in_bytes: 64 << 20,
        cpuset_cpus: "0".to_owned(),
        ..LinuxContainerResources::default()
    };
    let spec = world
        .container("main")
        .shell("sleep 600")
        .with(|config| config.linux.get_or_insert_default().resources = Some(asked.clone()));
    let running = world.run_container("limits", &spec).await;
    let files = Files {
        world: &world,
        id: running.id.clone(),
    };
    let memory = "memory/memory.limit_in_bytes";
    assert_eq!(files.read(memory, "memory.max").await, "67108864");
    // By the curve of today 1024 shares are the usual weight; by the old line they were 39.
    let expected = if is_cgroup_v2() { "100" } else { "1024" };
    assert_eq!(files.read("cpu/cpu.shares", "cpu.weight").await, expected);
    assert_eq!(files.read("cpuset/cpuset.cpus", "cpuset.cpus").await, "0");
    let told = files.status().await;
    assert_eq!(
        (told.cpu_shares, told.cpu_quota, told.cpu_period),
        (1024, 50_000, 100_000)
    );
    assert_eq!(told.memory_limit_in_bytes, 64 << 20);
    assert!(told.unified.is_empty(), "{:?}", told.unified);

    // What an update does not name stays, in the kernel too.
    files
        .update(LinuxContainerResources {
            memory_limit_in_bytes: 96 << 20,
            ..LinuxContainerResources::default()
        })
        .await;
    assert_eq!(files.read(memory, "memory.max").await, "100663296");
    assert_eq!(files.read("cpu/cpu.shares", "cpu.weight").await, expected);
    if is_cgroup_v2() {
        assert_eq!(files.read("", "cpu.max").await, "50000 100000");
        assert_eq!(files.read("", "memory.swap.max").await, "0");
    } else {
        assert_eq!(files.read("cpu/cpu.cfs_quota_us", "").await, "50000");
    }
    files
        .update(LinuxContainerResources {
            cpu_shares: 512,
            cpu_quota: 20_000,
            cpu_period: 100_000,
            ..LinuxContainerResources::default()
        })
        .await;
    let expected = if is_cgroup_v2() { "59" } else { "512" };
    assert_eq!(files.read("cpu/cpu.shares", "cpu.weight").await, expected);
    assert_eq!(files.read(memory, "memory.max").await, "100663296");
    let told = files.status().await;
    assert_eq!((told.cpu_shares, told.cpu_quota), (512, 20_000));
    assert_eq!(told.memory_limit_in_bytes, 96 << 20);

    if is_cgroup_v2() {
        let unified = HashMap::from([("memory.high".to_owned(), "50331648".to_owned())]);
        files
            .update(LinuxContainerResources {
                unified: unified.clone(),
                ..LinuxContainerResources::default()
            })
            .await;
        assert_eq!(files.read("", "memory.high").await, "50331648");
        assert_eq!(files.read("", "cpu.weight").await, "59");
        assert_eq!(files.status().await.unified, unified);
    }
    world.finish().await;
}

#[tokio::test]
async fn a_machine_without_resctrl_serves_and_says_why_there_is_no_class() {
    if std::path::Path::new("/sys/fs/resctrl/schemata").exists() {
        orlop_testkit::skip!("this machine has resctrl");
    }
    let scratch = Scratch::new();
    let file = scratch.path("rdt.yaml");
    std::fs::write(&file, "partitions: {p: {classes: {fast: }}}\n").expect("write");
    let config = format!("[containers]\nrdt_config = \"{}\"\n", file.display());
    let world = world!(Node::orlop().drop_in(&config));
    let annotation = "rdt.resources.beta.kubernetes.io/pod";
    let pod = world.node.pod("classes").annotation(annotation, "fast");
    let pod_id = world.run_pod(&pod).await;
    let refused = world.cri.create(&pod_id, &pod, &world.container("c")).await;
    let refused = refused.expect_err("there is no such class");
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition, "{refused}");
    for word in [annotation, "fast", "resctrl is not mounted"] {
        assert!(refused.message().contains(word), "{refused}");
    }
    world.finish().await;
}

#[tokio::test]
async fn a_class_that_the_node_does_not_have_is_named() {
    let world = ours!();
    let pod = world.node.pod("classes");
    let pod_id = world.run_pod(&pod).await;
    for (kind, key) in [("blockio", "blockio_config"), ("rdt", "rdt_classes")] {
        let annotation = format!("io.kubernetes.cri.{kind}-class");
        let spec = world.container(kind).with(|config| {
            config
                .annotations
                .insert(annotation.clone(), "fast".to_owned());
        });
        let refused = world.cri.create(&pod_id, &pod, &spec).await;
        let refused = refused.expect_err("there is no such class");
        assert_eq!(refused.code(), tonic::Code::FailedPrecondition, "{refused}");
        for word in [annotation.as_str(), "fast", key] {
            assert!(refused.message().contains(word), "{refused}");
        }
    }
    world.finish().await;
}

#[tokio::test]
async fn a_containers_cgroup_is_there_when_its_runtime_gets_to_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let seen = dir.path().join("seen");
    // What the daemon has made while its runtime did nothing yet.
    let look = format!(
        "sleep 0.5; for id; do :; done; find /sys/fs/cgroup -type d -name \"*$id*\" >>{}",
        seen.display()
    );
    let waits = before_create(dir.path(), &look);
    let world = world!(Node::orlop().runtime(&waits));
    let running = world.run_script("ahead", "sleep 600").await;
    let found = std::fs::read_to_string(&seen).expect("what was seen");
    let directory = cgroup_of(&world, &running.id, "memory");
    let directory = directory.to_string_lossy();
    assert!(found.lines().any(|it| it == directory), "{found}");
    world.finish().await;
}

#[tokio::test]
async fn where_a_start_fails_no_cgroup_is_left() {
    let dir = tempfile::tempdir().expect("a directory");
    // One that does nothing at all of what it is asked for.
    let fails = before_create(dir.path(), "sleep 0.2; exit 1");
    let world = world!(Node::orlop().runtime(&fails));
    let pod = world.node.pod("fails");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").command(&["true"]);
    let id = world.cri.create(&pod_id, &pod, &spec).await;
    let id = id.expect("create");
    let refused = world.cri.start(&id).await;
    refused.expect_err("it is not made");
    let left = orlop_testkit::leaks::cgroups(world.node.id());
    let left = left.iter().filter(|it| it.to_string_lossy().contains(&id));
    assert_eq!(left.count(), 0, "it did not start");
    world.finish().await;
}
