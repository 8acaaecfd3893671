//! Commands in containers.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use orlop_cri_api::v1::RunPodSandboxRequest;
use orlop_testkit::{DockerEngine, machine};

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
    let error = world.cri.exec_within(&id, &["sh", "-c", &script], 1).await;
    let error = error.unwrap_err();
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
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_time_is_over_before_it_begins_does_not_run_on() {
    orlop_testkit::skip_unless!(orlop_testkit::docker::can_run());
    // A runtime that takes its time to begin a command, and says so.
    let files = tempfile::tempdir().unwrap();
    let (slow, begun) = (files.path().join("slow"), files.path().join("begun"));
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' exec '*) sleep 3; touch {} ;; esac\nexec {} \"$@\"\n",
        begun.display(),
        machine::program("runc").unwrap().display()
    );
    std::fs::write(&slow, script).unwrap();
    std::fs::set_permissions(&slow, std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = DockerEngine::settings().runtime("slow", slow.to_str().unwrap());
    let world = world!(settings.start());
    let pod = world.node.pod("late");
    let request = RunPodSandboxRequest {
        config: Some(pod.config()),
        runtime_handler: "slow".to_owned(),
    };
    let answer = world.cri.runtime().run_pod_sandbox(request).await;
    let pod_id = answer.unwrap().into_inner().pod_sandbox_id;
    let spec = world.container("main").command(&["sleep", "1000"]);
    let id = world.cri.run(&pod_id, &pod, &spec).await.unwrap();

    let mark = format!("{}", 5_000_000 + std::process::id());
    let error = world.cri.exec_within(&id, &["sleep", &mark], 1).await;
    let error = error.unwrap_err();
    assert_eq!(error.code(), tonic::Code::DeadlineExceeded, "{error}");
    assert!(!begun.exists(), "it was given up before it began");
    eventually("its beginning", || begun.exists()).await;
    // A process that begins runs for a moment, and no longer.
    let mut quiet = 0;
    eventually("its end", || {
        quiet = if running(&mark) == 0 { quiet + 1 } else { 0 };
        quiet == 100
    })
    .await;
    assert_eq!(world.inspect(&id, "{{.State.Running}}"), "true");
    world.node.finish().await;
}
