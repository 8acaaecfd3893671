//! Commands in containers.

use std::time::{Duration, Instant};

use crate::world::{eventually, world};

/// How many processes run with this argument.
fn running(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| {
            line.split(|byte| *byte == 0)
                .any(|word| word == mark.as_bytes())
        })
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_takes_too_long_is_killed_with_what_it_started() {
    let world = world!();
    let (_, _, id) = world.run_script("slow", "sleep 1000").await;
    let answer = world
        .cri
        .exec(&id, &["sh", "-c", "echo out; echo err >&2; exit 7"])
        .await
        .unwrap();
    assert_eq!(
        (&*answer.stdout, &*answer.stderr, answer.exit_code),
        (&b"out\n"[..], &b"err\n"[..], 7)
    );

    let mark = format!("{}", 3_000_000 + std::process::id());
    let script = format!("sleep {mark} & sleep {mark}; echo done");
    let begun = Instant::now();
    let error = world
        .cri
        .exec_within(&id, &["sh", "-c", &script], 1)
        .await
        .unwrap_err();
    assert_eq!(error.code(), tonic::Code::DeadlineExceeded, "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    eventually("all of it killed", || running(&mark) == 0).await;
    // The container itself goes on.
    assert_eq!(world.inspect(&id, "{{.State.Running}}"), "true");
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_leaves_a_process_behind_is_not_waited_for() {
    let world = world!();
    let (_, _, id) = world.run_script("left", "sleep 1000").await;
    let begun = Instant::now();
    let answer = world
        .cri
        .exec(&id, &["sh", "-c", "sleep 500 & echo begun"])
        .await
        .unwrap();
    assert_eq!((&*answer.stdout, answer.exit_code), (&b"begun\n"[..], 0));
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    world.node.finish().await;
}
