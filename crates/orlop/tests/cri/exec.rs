//! ExecSync: codes, streams, limits.

use std::time::{Duration, Instant};

use tonic::Code;

use crate::world::world;

mod ours;

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
async fn only_a_running_container_takes_commands() {
    let world = world!();
    let unknown = world.cri.exec(&"0".repeat(64), &["true"]).await;
    let unknown = unknown.expect_err("unknown");
    assert_eq!(unknown.code(), Code::NotFound, "{unknown}");
    let running = world.run_script("over", "true").await;
    world.cri.wait_exited(&running.id).await;
    let refused = world.cri.exec(&running.id, &["true"]).await;
    refused.expect_err("it has exited");
    let running = world.run_script("runs", "sleep 600").await;
    let missing = world.cri.exec(&running.id, &["/no/such/program"]).await;
    let told = match missing {
        Ok(output) => output.exit_code != 0,
        Err(status) => status.message().contains("/no/such/program"),
    };
    assert!(told, "a missing program is not told");
    world.finish().await;
}
