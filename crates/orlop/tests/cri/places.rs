//! Containers on another disk than images (`containers.root`).

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use orlop_cri_api::v1::{
    FilesystemUsage, ImageFsInfoRequest, ImageFsInfoResponse, ListPodSandboxMetricsRequest,
};
use orlop_testkit::{ImageBuilder, Layer, Node, Scratch, assert_contains, node};
use tokio::process::Command;
use tokio::time::timeout;

use crate::world::{World, world};

const DISK: u64 = 32 << 20;

fn on(disk: &Path) -> String {
    format!("[containers]\nroot = {disk:?}\n")
}

fn place(usage: &FilesystemUsage) -> (PathBuf, u64) {
    let id = usage.fs_id.as_ref().expect("an id");
    let bytes = usage.used_bytes.as_ref().expect("a number");
    (PathBuf::from(&id.mountpoint), bytes.value)
}

async fn filesystems(world: &World) -> ImageFsInfoResponse {
    let mut images = world.cri.images();
    let answer = images.image_fs_info(ImageFsInfoRequest::default()).await;
    answer.expect("info").into_inner()
}

#[tokio::test]
async fn containers_write_to_a_disk_of_their_own() {
    let scratch = Scratch::new();
    let disk = scratch.disk("fast", DISK);
    let mut world = world!(Node::orlop().drop_in(&on(&disk)));
    let running = world.run_script("writes", "head -c 3000000 /dev/zero > /file; sleep 600");
    let running = running.await;
    let written = "until [ $(wc -c < /file) = 3000000 ]; do sleep 0.05; done";
    world.printed(&running.id, &["sh", "-c", written]).await;

    let root = world.node.scratch().path("root");
    let info = filesystems(&world).await;
    assert_eq!(place(&info.image_filesystems[0]).0, root.join("images"));
    let (at, bytes) = place(&info.container_filesystems[0]);
    assert_eq!(at, disk);
    assert!((3_000_000..DISK).contains(&bytes), "{bytes}");
    let stats = world.cri.stats(&running.id).await;
    let stats = stats.expect("stats");
    assert_eq!(
        place(&stats.writable_layer.expect("a layer")),
        (disk.clone(), bytes)
    );
    let metrics = world.cri.runtime();
    let metrics = metrics
        .clone()
        .list_pod_sandbox_metrics(ListPodSandboxMetricsRequest {})
        .await;
    let metrics = metrics.expect("metrics").into_inner();
    let of_container = &metrics.pod_metrics[0].container_metrics[0].metrics;
    let limit = of_container
        .iter()
        .find(|metric| metric.name == "container_fs_limit_bytes");
    let limit = limit
        .and_then(|limit| limit.value.as_ref())
        .expect("a limit");
    assert_eq!(limit.value, DISK);
    let doctor = world.doctor().await;
    assert_contains!(doctor, &format!("MiB are free for {}", disk.display()));

    // What fills it is in nobody's way but the containers'.
    let fills = "head -c 100000000 /dev/zero > /more || echo full; rm /more";
    assert_eq!(
        world.printed(&running.id, &["sh", "-c", fills]).await,
        "full"
    );
    let image = ImageBuilder::new()
        .layer(Layer::new().noise("noise", 40 << 20))
        .build();
    world.image(&image, "larger:1").await;

    world.crash().await;
    assert_eq!(
        world.printed(&running.id, &["wc", "-c", "/file"]).await,
        "3000000 /file"
    );
    let pods = || std::fs::read_dir(disk.join("pods")).expect("list").count();
    assert_eq!(pods(), 1);
    world.cri.stop_pod(&running.pod_id).await.expect("stop");
    world.cri.remove_pod(&running.pod_id).await.expect("remove");
    assert_eq!(pods(), 0);
    assert!(!root.join("pods").exists());
    world.finish().await;
}

#[tokio::test]
async fn containers_are_moved_while_there_are_none() {
    let scratch = Scratch::new();
    let (first, second) = (scratch.subdir("first"), scratch.subdir("second"));
    let mut world = world!(Node::orlop().drop_in(&on(&first)));
    let running = world.run_script("stays", "sleep 600").await;
    let drop_in = world.node.scratch().path("config.toml.d/50-test.toml");
    let to = |text: &str| std::fs::write(&drop_in, text).expect("write a drop-in");

    world.node.stop();
    for elsewhere in [on(&second), String::new()] {
        to(&elsewhere);
        let refused = serve(&world).await;
        assert!(!refused.status.success(), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        let named = format!(
            "pods (1) still have their records and files in {}",
            first.join("pods").display()
        );
        assert!(said.contains(&named), "{said}");
        assert_contains!(said, &format!("set it back to {}", first.display()));
    }
    to(&on(&first));
    world.start_again().await;
    assert_eq!(world.printed(&running.id, &["echo", "here"]).await, "here");
    world.cri.stop_pod(&running.pod_id).await.expect("stop");
    world.cri.remove_pod(&running.pod_id).await.expect("remove");

    world.node.stop();
    to(&on(&second));
    world.start_again().await;
    assert_eq!(
        place(&filesystems(&world).await.container_filesystems[0]).0,
        second
    );
    let moved = world.run_script("moved", "sleep 600").await;
    assert_eq!(world.printed(&moved.id, &["echo", "there"]).await, "there");
    world.finish().await;
}

/// A daemon with the node's configuration, which ends at once where it is refused.
async fn serve(world: &World) -> Output {
    let scratch = world.node.scratch();
    let (root, state) = (scratch.path("root"), scratch.run().join("s"));
    let mut serve = Command::new(node::binary());
    serve
        .args(["serve", "--config"])
        .arg(scratch.path("config.toml"));
    serve.arg("--root").arg(root).arg("--state").arg(state);
    let socket = scratch.run().join("other.sock");
    serve
        .arg("--listen")
        .arg(format!("unix://{}", socket.display()));
    let ended = serve.kill_on_drop(true).output();
    let ended = timeout(Duration::from_secs(20), ended).await;
    ended.expect("it is refused at once").expect("run orlop")
}
