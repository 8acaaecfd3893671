//! Who listens to events and comes back hears what happened while the daemon was away.

use std::time::Duration;

use orlop_cri_api::v1::{ContainerEventResponse, ContainerEventType, GetEventsRequest};
use tonic::Streaming;

use crate::world::{World, world};

async fn subscribe(world: &World) -> Streaming<ContainerEventResponse> {
    let mut client = world.node.cri().await.runtime;
    let events = client.get_container_events(GetEventsRequest {}).await;
    events.expect("subscribe").into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_while_the_daemon_is_away_reaches_who_listened_before() {
    let mut world = world!();
    let begin = jiff::Timestamp::now().to_string();
    let (_, pod_id, id) = world.run_script("going", "sleep 2; exit 7").await;
    let listening = subscribe(&world).await;
    world.node.kill9();
    drop(listening);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let returns = orlop_cri_server::clock::now();
    world.start_again().await;
    world.wait_ready(true).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut events = subscribe(&world).await;
    let ended = async {
        while let Ok(Some(event)) = events.message().await {
            let ended = event.container_event_type() == ContainerEventType::ContainerStoppedEvent;
            if ended && event.container_id == id {
                return event;
            }
        }
        panic!("the stream has ended");
    };
    let event = tokio::time::timeout(Duration::from_secs(2), ended).await;
    let event = event.expect("the end is told");
    assert!(event.created_at < returns, "with its own time");
    assert_eq!(event.pod_sandbox_status.expect("a pod").id, pod_id);
    assert_eq!(event.containers_statuses[0].exit_code, 7);

    // And to who asks afterwards, whether or not it has listened.
    let endpoint = format!("unix://{}", world.node.socket().display());
    let output = tokio::process::Command::new("timeout")
        .args(["5", env!("CARGO_BIN_EXE_orlop"), "-r", &endpoint])
        .args(["events", "-o", "table", "--since", &begin, "-n", "5"])
        .output()
        .await
        .expect("orlop events");
    let told = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{stderr}");
    let ends: Vec<&str> = told
        .lines()
        .filter(|line| line.contains("stopped"))
        .collect();
    assert_eq!(ends.len(), 1, "{told}");
    assert!(ends[0].contains("/going  main  "), "{told}");
    assert!(ends[0].contains("exit code 7"), "{told}");
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_new_hears_nothing_of_the_past_and_is_told_of_it_when_it_asks() {
    let world = world!();
    let (_, pod_id, id) = world.run_script("asked", "exit 7").await;
    world.cri.wait_exited(&id).await;
    world.cri.remove(&id).await.expect("remove");
    world.cri.stop_pod(&pod_id).await.expect("stop the pod");
    world.cri.remove_pod(&pod_id).await.expect("remove the pod");
    let endpoint = format!("unix://{}", world.node.socket().display());
    let events = async |more: &[&str]| {
        let output = tokio::process::Command::new("timeout")
            .args(["2", env!("CARGO_BIN_EXE_orlop"), "-r", &endpoint])
            .args(["events", "-o", "table"])
            .args(more)
            .output()
            .await
            .expect("orlop events");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(events(&[]).await, "");
    let told = events(&["--since", "10m"]).await;
    let mut words: Vec<_> = told
        .lines()
        .map(|line| line.split("  ").collect::<Vec<_>>())
        .map(|words| (words[1], words[3], words[2].ends_with("/asked")))
        .collect();
    words.sort_unstable();
    let wanted = ["created", "deleted", "started", "stopped"]
        .map(|what| [(what, "(pod)", true), (what, "main", true)]);
    assert_eq!(words, wanted.concat(), "{told}");
    assert!(told.contains("exit code 7"), "{told}");
    world.node.finish().await;
}
