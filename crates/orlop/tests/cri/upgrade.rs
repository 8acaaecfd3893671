//! Pods live through a change of the program, in both directions (`make test-upgrade`).

use std::path::{Path, PathBuf};

use orlop_cri_api::v1::{ContainerState, PodSandboxState};
use orlop_testkit::{Chunked, ContainerSpec, ImageBuilder, Layer, Node, NodeBuilder, skip};

use crate::world::{Running, World, ours, world};

/// Names the directory of the other version's programs.
const OTHER: &str = "ORLOP_TEST_OTHER";

fn other() -> Option<PathBuf> {
    std::env::var_os(OTHER).map(PathBuf::from)
}

#[tokio::test]
async fn pods_of_the_version_before_are_adopted_entered_stopped_and_removed() {
    let Some(dir) = other() else {
        skip!("{OTHER} names no other version (make test-upgrade)");
    };
    let world = world!(Node::orlop().programs(&dir));
    change(world, None).await;
}

#[tokio::test]
async fn the_version_before_takes_over_pods_of_this_one() {
    let Some(dir) = other() else {
        skip!("{OTHER} names no other version (make test-upgrade)");
    };
    let world = ours!();
    change(world, Some(&dir)).await;
}

/// Nothing comes that nobody reads.
const LAZY: &str = r#"
[images]
lazy = "auto"
lazy_min_layer = 0
lazy_bandwidth = "1KiB"
"#;

#[tokio::test]
async fn what_the_version_before_serves_lazily_is_read_on() {
    let Some(dir) = other().filter(|dir| dir.join("orlop-lazy").exists()) else {
        skip!("{OTHER} names no other version with lazy layers (make test-upgrade)");
    };
    read_on(Node::orlop().programs(&dir), None).await;
}

#[tokio::test]
async fn the_version_before_reads_on_what_this_one_serves_lazily() {
    let Some(dir) = other().filter(|dir| dir.join("orlop-lazy").exists()) else {
        skip!("{OTHER} names no other version with lazy layers (make test-upgrade)");
    };
    read_on(Node::orlop(), Some(&dir)).await;
}

/// A container reads one file before a change to the programs `to`, waits for another over the change, and has
/// all of its image afterwards.
async fn read_on(node: NodeBuilder, to: Option<&Path>) {
    let mut world = world!(node.drop_in(LAZY));
    let layer = Layer::new()
        .noise("before", 1 << 20)
        .noise("over", 1 << 20)
        .noise("after", 4 << 20);
    let image = ImageBuilder::busybox()
        .chunked(layer, Chunked::EStargz)
        .marked("read on")
        .build();
    let name = world.image(&image, "on:1").await;
    let gate = world.node.scratch().subdir("gate");
    let pod = world.node.pod("reads").own_network();
    let pod_id = world.run_pod(&pod).await;
    let script =
        "while [ ! -e /gate/open ]; do sleep 0.05; done; sha256sum /over > /sum; sleep 600";
    let waits = ContainerSpec::new("waits", &name).mount(&gate, "/gate");
    let id = world.cri.run(&pod_id, &pod, &waits.shell(script)).await;
    let id = id.expect("run a container");
    let before = world.printed(&id, &["sha256sum", "/before"]).await;

    world.node.stop();
    // Who reads now waits for the next daemon.
    std::fs::write(gate.join("open"), "").expect("write");
    world.node.start_again_with(to).await;
    world.cri = world.node.cri().await;

    let told = "until [ -s /sum ]; do sleep 0.05; done; cat /sum";
    let over = world.printed(&id, &["sh", "-c", told]).await;
    assert_eq!(before, world.printed(&id, &["sha256sum", "/before"]).await);
    let after = world.printed(&id, &["sha256sum", "/after"]).await;
    // The same in a container of the version that runs now.
    let fresh = ContainerSpec::new("fresh", &name);
    let fresh = world
        .cri
        .run(&pod_id, &pod, &fresh.shell("sleep 600"))
        .await;
    let fresh = fresh.expect("run a container");
    assert_eq!(over, world.printed(&fresh, &["sha256sum", "/over"]).await);
    assert_eq!(after, world.printed(&fresh, &["sha256sum", "/after"]).await);
    world.finish().await;
}

/// Pods of the version that runs, in the hands of the one whose programs are `to`.
async fn change(mut world: World, to: Option<&Path>) {
    let gate = world.node.scratch().subdir("gate");
    let spec = world.container("main").mount(&gate, "/gate");
    let waiting = "while [ ! -e /gate/open ]; do sleep 0.05; done; exit 9";
    let lives = run(&world, "lives", "sleep 600").await;
    let exited = run(&world, "exited", "exit 4").await;
    let ends = world.node.pod("ends").own_network();
    let ends_id = world.run_pod(&ends).await;
    let unseen = world.cri.run(&ends_id, &ends, &spec.shell(waiting)).await;
    let unseen = unseen.expect("run a container");
    world.cri.wait_exited(&exited.id).await;
    let before = world.cri.status(&lives.id).await.expect("status");
    let pod_before = world.cri.pod_status(&lives.pod_id).await.expect("status");

    world.node.stop();
    // One ends while no version is there to see it.
    std::fs::write(gate.join("open"), "").expect("write");
    world.node.start_again_with(to).await;
    world.cri = world.node.cri().await;

    let pod = world.cri.pod_status(&lives.pod_id).await.expect("status");
    assert_eq!(pod.state(), PodSandboxState::SandboxReady);
    assert_eq!(pod.network, pod_before.network);
    let status = world.cri.status(&lives.id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerRunning);
    assert_eq!(status.started_at, before.started_at);
    let answer = world.cri.exec(&lives.id, &["echo", "ahoy"]).await;
    assert_eq!(answer.expect("exec").stdout, b"ahoy\n");
    assert_eq!(world.cri.wait_exited(&unseen).await.exit_code, 9);
    let known = world.cri.status(&exited.id).await.expect("status");
    assert_eq!(known.exit_code, 4);
    // Another container in a pod of the other version, from an image that it has pulled.
    let more = world.container("more").shell("exit 3");
    let more = world.cri.run(&lives.pod_id, &lives.pod, &more).await;
    let more = more.expect("run a container");
    assert_eq!(world.cri.wait_exited(&more).await.exit_code, 3);
    let fresh = run(&world, "fresh", "exit 5").await;
    assert_eq!(world.cri.wait_exited(&fresh.id).await.exit_code, 5);

    world.cri.stop(&lives.id, 0).await.expect("stop");
    assert_eq!(world.cri.wait_exited(&lives.id).await.exit_code, 137);
    world.cri.remove(&lives.id).await.expect("remove");
    world.finish().await;
}

async fn run(world: &World, name: &str, script: &str) -> Running {
    let pod = world.node.pod(name).own_network();
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").shell(script);
    let id = world.cri.run(&pod_id, &pod, &spec).await;
    let id = id.expect("run a container");
    Running { pod, pod_id, id }
}
