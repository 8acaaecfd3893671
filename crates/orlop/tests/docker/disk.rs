//! Disks that are full.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use orlop_testkit::{DockerEngine, assert_contains};

use crate::world::{eventually, world};

/// A file that takes all the room of its disk until it is dropped.
struct Ballast(PathBuf);

impl Ballast {
    fn on(disk: &Path) -> Self {
        let path = disk.join("ballast");
        let mut file = std::fs::File::create(&path).unwrap();
        let mut piece = 1 << 20;
        // To the last byte, or what is written next still fits.
        while piece > 0 {
            match file.write(&vec![1; piece]) {
                Ok(count) if count == piece => {}
                _ => piece /= 2,
            }
        }
        Self(path)
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A directory on a disk of its own.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn on(dir: &Path, size: &str) -> Self {
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "disk"])
            .arg(dir)
            .status();
        assert!(status.unwrap().success());
        Self(dir.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_of_the_engine_is_told_and_goes_by() {
    let world = world!(DockerEngine::settings().disk(48 << 20).start());
    let (_, _, running) = world.run_script("before", "sleep 1000").await;
    let ballast = Ballast::on(&world.engine.data());
    let pod = world.node.pod("full");
    let error = world.cri.run_pod(&pod).await.unwrap_err();
    assert_contains!(error.message(), "no space left on device");
    // What runs goes on, and everything can be looked at.
    assert!(world.runtime_ready().await.status);
    let status = world.cri.status(&running).await.unwrap();
    assert_eq!(
        status.state(),
        orlop_cri_api::v1::ContainerState::ContainerRunning
    );
    drop(ballast);
    let pod = world.node.pod("full").attempt(1);
    let pod_id = world.cri.run_pod(&pod).await.unwrap();
    let spec = world.container("main").shell("exit 3");
    let id = world.cri.run(&pod_id, &pod, &spec).await.unwrap();
    assert_eq!(world.cri.wait_exited(&id).await.exit_code, 3);
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_goes_on_where_its_disk_was_full() {
    let world = world!();
    // The logs of the pod `full`.
    let disk = SmallDisk::on(&world.node.scratch().subdir("logs/full"), "256k");
    let script = "i=0; while [ $i -lt 400 ]; do echo $i; i=$((i+1)); sleep 0.01; done";
    let (pod, _, id) = world.run_script("full", script).await;
    let log = pod.logs().join("main.log");
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    eventually("a beginning", || text().lines().count() > 20).await;
    let ballast = Ballast::on(&disk.0);
    let ended = world.cri.wait_exited(&id).await;
    assert_eq!(ended.exit_code, 0, "the container is not held up");
    assert!(!text().ends_with(" 399\n"), "the disk is full");
    drop(ballast);
    eventually("the rest of the log", || text().ends_with(" 399\n")).await;
    let numbers: Vec<u32> = text()
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(numbers, (0..400).collect::<Vec<_>>());
    drop(disk);
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_sandbox_is_left_where_its_checkpoint_cannot_be_written() {
    let world = world!();
    let disk = SmallDisk::on(&world.checkpoints(), "64k");
    let ballast = Ballast::on(&disk.0);
    let pod = world.node.pod("full").own_network();
    let error = world.cri.run_pod(&pod).await.unwrap_err();
    assert!(error.message().contains("checkpoint"), "{error}");
    assert_eq!(world.engine.docker(&["ps", "-aq"]), "");
    assert!(world.cri.pods().await.unwrap().is_empty());
    drop(ballast);
    let id = world.cri.run_pod(&pod).await.unwrap();
    world.cri.stop_pod(&id).await.unwrap();
    world.cri.remove_pod(&id).await.unwrap();
    drop(disk);
    world.node.finish().await;
}
