//! Runs on orlop alone.

use orlop_cri_api::v1::LinuxContainerResources;

use super::*;
use crate::world::ours;

#[tokio::test]
async fn a_limit_ends_the_whole_tree() {
    // containerd 1.6 kills the head alone and waits for the rest.
    let world = ours!();
    let running = world.run_script("limit", "sleep 600").await;
    let start = Instant::now();
    let command = ["sh", "-c", "sleep 4321 & sleep 4321; true"];
    let error = world.cri.exec_within(&running.id, &command, 1).await;
    let error = error.expect_err("takes too long");
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
    assert!(error.message().ends_with("timed out after 1s"), "{error}");
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "took {took:?}");
    let ps = world
        .cri
        .exec(&running.id, &["ps", "-o", "args"])
        .await
        .expect("exec")
        .stdout;
    let ps = String::from_utf8_lossy(&ps).into_owned();
    assert!(!ps.contains("4321"), "something of it goes on:\n{ps}");
    world.finish().await;
}

#[tokio::test]
async fn the_time_that_a_command_takes_to_start_counts() {
    let world = ours!();
    let busy = "for n in 1 2 3 4 5 6 7 8 9 10; do while :; do :; done & done; wait";
    let spec = world.container("main").shell(busy).with(|config| {
        let linux = config.linux.get_or_insert_default();
        // A hundredth of a processor.
        linux.resources = Some(LinuxContainerResources {
            cpu_quota: 1_000,
            cpu_period: 100_000,
            ..LinuxContainerResources::default()
        });
    });
    let running = world.run_container("starved", &spec).await;
    let start = Instant::now();
    let answer = world.cri.exec_within(&running.id, &["true"], 1).await;
    let took = start.elapsed();
    assert!(took < Duration::from_secs(3), "{answer:?} took {took:?}");
    if took > Duration::from_secs(1) {
        let error = answer.expect_err("it took longer than it may");
        assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
    }
    world.finish().await;
}

#[tokio::test]
async fn a_grandchild_that_keeps_the_pipe_holds_nobody_up() {
    // containerd 1.6 waits for the pipe to close, however long.
    let world = ours!();
    let running = world.run_script("grandchild", "sleep 600").await;
    let start = Instant::now();
    let output = world
        .cri
        .exec(&running.id, &["sh", "-c", "sleep 300 & echo done"])
        .await;
    assert_eq!(output.expect("exec").stdout, b"done\n");
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "took {took:?}");
    world.finish().await;
}
