//! Who listens to events and comes back hears what happened meanwhile; nobody else hears of the past.

use std::time::Duration;

use orlop_cri_api::v1::{ContainerEventResponse, ContainerEventType, GetEventsRequest};
use tonic::Streaming;

use crate::world::{World, ours};

async fn subscribe(world: &World) -> Streaming<ContainerEventResponse> {
    let mut client = world.node.cri().await.runtime;
    let events = client.get_container_events(GetEventsRequest {}).await;
    events.expect("subscribe").into_inner()
}

/// The end of a container, which is told within a second.
async fn end_of(
    container: &str,
    events: &mut Streaming<ContainerEventResponse>,
) -> Option<ContainerEventResponse> {
    let wanted = async {
        while let Ok(Some(event)) = events.message().await {
            let ended = event.container_event_type() == ContainerEventType::ContainerStoppedEvent;
            if ended && event.container_id == container {
                return Some(event);
            }
        }
        None
    };
    let told = tokio::time::timeout(Duration::from_secs(1), wanted).await;
    told.ok().flatten()
}

fn now() -> i64 {
    orlop_cri_server::clock::now()
}

#[tokio::test]
async fn an_end_while_the_daemon_is_away_reaches_who_listened_before() {
    let mut world = ours!();
    let going = world.run_script("going", "sleep 2; exit 7").await;
    let listening = subscribe(&world).await;
    world.node.kill9();
    drop(listening);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let returns = now();
    world.start_again().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let event = end_of(&going.id, &mut subscribe(&world).await).await;
    let event = event.expect("the end is told");
    assert!(event.created_at < returns, "with its own time");
    let statuses = &event.containers_statuses;
    assert_eq!(statuses.len(), 1);
    assert_eq!(statuses[0].exit_code, 7);
    world.finish().await;
}

#[tokio::test]
async fn an_end_between_two_connections_is_told_to_who_comes_back_alone() {
    let world = ours!();
    let going = world.run_script("going", "sleep 600").await;
    drop(subscribe(&world).await);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    world.cri.stop(&going.id, 0).await.expect("stop");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    // Another process is told nothing of the past.
    let endpoint = format!("unix://{}", world.node.socket().display());
    let other = tokio::process::Command::new("timeout")
        .args(["1", env!("CARGO_BIN_EXE_orlop"), "-r", &endpoint, "events"])
        .output()
        .await
        .expect("orlop events");
    assert_eq!(String::from_utf8_lossy(&other.stdout), "");
    let stderr = String::from_utf8_lossy(&other.stderr);
    // What `timeout` ends with when it had to end it.
    assert_eq!(other.status.code(), Some(124), "it listens on: {stderr}");
    let mut again = subscribe(&world).await;
    assert!(end_of(&going.id, &mut again).await.is_some());
    drop(again);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    // What was told right before the connection ended may have been lost with it.
    let mut third = subscribe(&world).await;
    assert!(end_of(&going.id, &mut third).await.is_some());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    drop(third);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    // What was told more than a second before is old news.
    let mut fourth = subscribe(&world).await;
    assert!(end_of(&going.id, &mut fourth).await.is_none());
    world.finish().await;
}

/// The lines of `orlop events -o table --since …`, of which the last is the `count`th.
async fn told_since(world: &World, since: &str, count: usize) -> (Vec<String>, String) {
    let endpoint = format!("unix://{}", world.node.socket().display());
    let count = count.to_string();
    let line = [
        "-r", &endpoint, "events", "-o", "table", "--since", since, "-n", &count,
    ];
    let output = tokio::process::Command::new("timeout")
        .args(["5", env!("CARGO_BIN_EXE_orlop")])
        .args(line)
        .output()
        .await
        .expect("orlop events");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{:?}: {stderr}", output.status);
    let told = String::from_utf8_lossy(&output.stdout);
    (told.lines().map(str::to_owned).collect(), stderr)
}

#[tokio::test]
async fn who_asks_afterwards_is_told_what_has_happened_though_nobody_listened() {
    let world = ours!();
    let begin = jiff::Timestamp::now();
    let going = world.run_script("asked", "exit 7").await;
    world.cri.wait_exited(&going.id).await;
    world.cri.remove(&going.id).await.expect("remove");
    let (told, stderr) = told_since(&world, "10m", 6).await;
    let before_all = "some events before";
    assert!(
        stderr.contains(before_all),
        "the daemon is younger: {stderr}"
    );
    let is_told = |line: &str, what: &str, who: &str| {
        let words: Vec<&str> = line.split("  ").collect();
        words.len() >= 4 && words[1] == what && words[3] == who && words[2].ends_with("/asked")
    };
    for (line, (what, who)) in told.iter().zip([
        ("created", "(pod)"),
        ("started", "(pod)"),
        ("created", "main"),
        ("started", "main"),
        ("stopped", "main"),
        ("deleted", "main"),
    ]) {
        assert!(is_told(line, what, who), "{what} {who}: {line}");
    }
    assert!(told[4].contains("exit code 7"), "{}", told[4]);
    // What is told now follows upon it, and the past is what was asked for.
    let (told, stderr) = told_since(&world, &begin.to_string(), 6).await;
    assert_eq!((told.len(), stderr.as_str()), (6, ""));
    let later = jiff::Timestamp::now().to_string();
    let stop = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let done = world.cri.stop_pod(&going.pod_id).await;
        done.expect("stop the pod");
    };
    let ((told, _), ()) = tokio::join!(told_since(&world, &later, 1), stop);
    assert!(is_told(&told[0], "stopped", "(pod)"), "{}", told[0]);
    world.finish().await;
}

#[tokio::test]
async fn who_asks_after_a_restart_is_told_what_is_on_record() {
    let mut world = ours!();
    let begin = jiff::Timestamp::now().to_string();
    let going = world.run_script("asked", "sleep 1; exit 7").await;
    world.node.kill9();
    tokio::time::sleep(Duration::from_secs(3)).await;
    world.start_again().await;
    world.cri.wait_exited(&going.id).await;
    let (told, stderr) = told_since(&world, &begin, 3).await;
    assert!(stderr.contains("are no longer available"), "{stderr}");
    for (line, what) in told.iter().zip(["created", "started", "stopped"]) {
        assert!(line.contains(what) && line.contains("  main  "), "{line}");
    }
    assert!(told[2].contains("exit code 7"), "{}", told[2]);
    world.finish().await;
}
