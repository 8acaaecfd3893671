//! The daemon goes and comes back; pods don't notice, and nothing is forgotten.

use std::process::{Command, Stdio};
use std::time::Duration;

use orlop_cri_api::v1::{ContainerState, PodSandboxState};
use orlop_testkit::{machine, skip_unless};

use crate::world::{World, world};

mod ours;

/// How the daemon goes.
#[derive(Debug, Clone, Copy)]
enum Going {
    Asked,
    Killed,
}

#[tokio::test]
async fn containers_live_through_a_restart() {
    let world = world!();
    live_through(world, Going::Asked).await;
}

#[tokio::test]
async fn containers_live_through_the_daemons_death() {
    let world = world!();
    live_through(world, Going::Killed).await;
}

async fn live_through(mut world: World, how: Going) {
    let script = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.02; done";
    let running = world.run_script("ticking", script).await;
    let before = world.cri.status(&running.id).await.expect("status");
    go(&mut world, how);
    let left_at = running.stdout().lines().count();
    // The log goes on while nobody is there.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let meanwhile = running.stdout().lines().count();
    // containerd 1.6 copies the output itself, so there it has to wait.
    assert!(
        meanwhile > left_at || world.node.is_peer(),
        "the log stood still at {left_at} lines"
    );
    world.start_again().await;

    let after = world.cri.status(&running.id).await.expect("status");
    assert_eq!(after.state(), ContainerState::ContainerRunning);
    assert_eq!(after.started_at, before.started_at);
    let pod = world.cri.pod_status(&running.pod_id).await.expect("status");
    assert_eq!(pod.state(), PodSandboxState::SandboxReady);
    let output = world.cri.exec(&running.id, &["echo", "ahoy"]).await;
    let output = output.expect("exec");
    assert_eq!(output.stdout, b"ahoy\n");
    let numbers: Vec<usize> = running
        .stdout()
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect();
    assert!(
        numbers.iter().copied().eq(0..numbers.len()),
        "lines were lost: {numbers:?}"
    );
    world.cri.stop(&running.id, 0).await.expect("stop");
    assert_eq!(world.cri.wait_exited(&running.id).await.exit_code, 137);
    world.finish().await;
}

#[tokio::test]
async fn an_exit_that_nobody_saw_is_known() {
    let mut world = world!();
    let gate = world.node.scratch().subdir("gate");
    let script = "while [ ! -e /gate/open ]; do sleep 0.02; done; exit 9";
    let spec = world.container("main").shell(script).mount(&gate, "/gate");
    let running = world.run_container("unseen", &spec).await;
    go(&mut world, Going::Killed);
    std::fs::write(gate.join("open"), "").expect("write");
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.start_again().await;
    let status = world.cri.wait_exited(&running.id).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (9, "Error"));
    world.finish().await;
}

#[tokio::test]
async fn images_and_names_are_still_there() {
    let mut world = world!();
    let running = world.run_script("kept", "exit 4").await;
    world.cri.wait_exited(&running.id).await;
    go(&mut world, Going::Killed);
    world.start_again().await;
    world.cri.known_image(&world.busybox).await;
    assert_eq!(
        world
            .cri
            .status(&running.id)
            .await
            .expect("status")
            .exit_code,
        4
    );
    let more = world.run_script("more", "exit 5").await;
    assert_eq!(world.cri.wait_exited(&more.id).await.exit_code, 5);
    world.finish().await;
}

fn go(world: &mut World, how: Going) {
    match how {
        Going::Asked => drop(world.node.stop()),
        Going::Killed => world.node.kill9(),
    }
}

/// The processes of that name with `word` on their command line or in their directory.
fn processes_named(name: &str, word: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("read /proc").flatten() {
        let dir = entry.path();
        let Some(pid) = dir.file_name().and_then(|name| name.to_str()?.parse().ok()) else {
            continue;
        };
        let comm = std::fs::read_to_string(dir.join("comm")).unwrap_or_default();
        let command = std::fs::read(dir.join("cmdline")).unwrap_or_default();
        let cwd = std::fs::read_link(dir.join("cwd")).unwrap_or_default();
        let about = String::from_utf8_lossy(&command).contains(word)
            || cwd.to_string_lossy().contains(word);
        if comm.trim() == name && about {
            found.push(pid);
        }
    }
    found
}
