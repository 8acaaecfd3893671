//! Killed in the middle: no image is corrupt afterwards, nothing leaks, and a pull goes on.

use std::process::{Command, Stdio};
use std::time::Duration;

use orlop_image::{Config, Images};
use orlop_testkit::{Fault, FaultProxy, ImageBuilder, Layer, Registry, Rule, Scratch};

use crate::support::{content, pull};

const ROOT: &str = "ORLOP_CRASH_ROOT";
const REFERENCE: &str = "ORLOP_CRASH_REFERENCE";

#[tokio::test]
#[ignore = "the process that the test below kills"]
async fn victim() {
    let root = std::env::var(ROOT).expect("run by the test below");
    let reference = std::env::var(REFERENCE).expect("run by the test below");
    let images = Images::open(Config::new(root)).await.unwrap();
    pull(&images, &reference).await.unwrap();
}

#[tokio::test]
async fn a_kill_at_any_moment_leaves_a_store_that_goes_on() {
    let registry = Registry::start();
    let mut builder = ImageBuilder::new();
    for n in 0..4 {
        builder = builder.layer(Layer::new().noise(&format!("n{n}"), (5 + n) << 20));
    }
    let built = builder
        .layer(Layer::new().file("f", "whole", 0o644))
        .build();
    registry.push(&built, "app:1").await;
    let proxy = FaultProxy::before(registry.address());
    proxy.rule(Rule::on(
        "blobs/",
        Fault::Slow {
            bytes_per_second: 40 << 20,
        },
    ));
    let scratch = Scratch::new();
    let root = scratch.path("images");
    for round in 0..12_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::victim", "--ignored"])
            .env(ROOT, &root)
            .env(REFERENCE, proxy.reference("app:1"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Moments spread over the whole pull, never twice the same.
        tokio::time::sleep(Duration::from_millis(20 + round * 37 % 400)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let images = Images::open(Config::new(&root)).await.unwrap();
        assert_eq!(std::fs::read_dir(root.join("tmp")).unwrap().count(), 0);
        let verified = images.verify(false).await.unwrap();
        assert_eq!(verified.broken, [], "round {round}");
        let dirs = std::fs::read_dir(root.join("layers")).unwrap().count();
        assert_eq!(
            dirs, verified.sound,
            "round {round}: a layer that nobody knows"
        );
        for image in images.list() {
            assert_eq!(images.layers(&image.id).unwrap().len(), 5, "round {round}");
        }
        if round % 5 == 4 {
            // From nothing again, so that all moments are met.
            images.remove(built.id()).await.unwrap();
        }
        images.close().await;
    }
    let images = Images::open(Config::new(&root)).await.unwrap();
    let image = pull(&images, &proxy.reference("app:1")).await.unwrap();
    let mount = images.mount_read_only(&image.id).await.unwrap();
    assert_eq!(content(&mount, "f"), "whole");
    assert_eq!(std::fs::read_dir(root.join("ingest")).unwrap().count(), 0);
}
