//! ExecSync: codes, streams, limits.

use std::time::{Duration, Instant};

use tonic::Code;

use crate::world::world;

#[tokio::test]
async fn codes_and_streams_come_back() {
    let world = world!();
    let spec = world
        .container("main")
        .shell("sleep 600")
        .env("COLOUR", "blue")
        .uid(1000);
    let running = world.run_container("exec", &spec).await;
    let output = world
        .cri
        .exec(
            &running.id,
            &["sh", "-c", "echo out; echo err >&2; exit 42"],
        )
        .await
        .expect("exec");
    assert_eq!(output.exit_code, 42);
    assert_eq!(
        (&output.stdout[..], &output.stderr[..]),
        (&b"out\n"[..], &b"err\n"[..])
    );
    // It runs as the container does: its user, its environment.
    let output = world
        .cri
        .exec(&running.id, &["sh", "-c", "id -u; echo $COLOUR"])
        .await;
    assert_eq!(output.expect("exec").stdout, b"1000\nblue\n");
    let output = world
        .cri
        .exec(&running.id, &["sh", "-c", "kill -9 $$"])
        .await
        .expect("exec");
    assert_eq!(output.exit_code, 137);
    world.finish().await;
}

#[tokio::test]
async fn big_output_is_whole() {
    let world = world!();
    let running = world.run_script("big", "sleep 600").await;
    let command = ["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"];
    let output = world.cri.exec(&running.id, &command).await.expect("exec");
    assert_eq!(output.stdout.len(), 3_000_000);
    assert!(output.stdout.iter().all(|byte| *byte == b'x'));
    world.finish().await;
}

#[tokio::test]
async fn a_limit_ends_the_whole_tree() {
    let world = world!();
    if world.node.is_peer() {
        orlop_testkit::skip!("containerd 1.6 kills the head alone and waits for the rest");
    }
    let running = world.run_script("limit", "sleep 600").await;
    let start = Instant::now();
    let command = ["sh", "-c", "sleep 4321 & sleep 4321; true"];
    let error = world
        .cri
        .exec_within(&running.id, &command, 1)
        .await
        .expect_err("takes too long");
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
    assert!(error.message().ends_with("timed out after 1s"), "{error}");
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "took {:?}",
        start.elapsed()
    );
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
async fn a_grandchild_that_keeps_the_pipe_holds_nobody_up() {
    let world = world!();
    if world.node.is_peer() {
        orlop_testkit::skip!("containerd 1.6 waits for the pipe to close, however long");
    }
    let running = world.run_script("grandchild", "sleep 600").await;
    let start = Instant::now();
    let output = world
        .cri
        .exec(&running.id, &["sh", "-c", "sleep 300 & echo done"])
        .await;
    assert_eq!(output.expect("exec").stdout, b"done\n");
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "took {:?}",
        start.elapsed()
    );
    world.finish().await;
}

#[tokio::test]
async fn only_a_running_container_takes_commands() {
    let world = world!();
    let unknown = world
        .cri
        .exec(&"0".repeat(64), &["true"])
        .await
        .expect_err("unknown");
    assert_eq!(unknown.code(), Code::NotFound, "{unknown}");
    let running = world.run_script("over", "true").await;
    world.cri.wait_exited(&running.id).await;
    world
        .cri
        .exec(&running.id, &["true"])
        .await
        .expect_err("it has exited");
    let running = world.run_script("runs", "sleep 600").await;
    let missing = world.cri.exec(&running.id, &["/no/such/program"]).await;
    let told = match missing {
        Ok(output) => output.exit_code != 0,
        Err(status) => status.message().contains("/no/such/program"),
    };
    assert!(told, "a missing program is not told");
    world.finish().await;
}
