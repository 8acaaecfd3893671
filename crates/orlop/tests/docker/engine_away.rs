//! An engine that goes, hangs and comes back.

use std::time::{Duration, Instant};

use orlop_cri::v1::{ContainerEventType, GetEventsRequest};
use orlop_testkit::DockerEngine;
use rustix::process::Signal;

use crate::world::{eventually, world};

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_restarted_is_found_again_with_its_containers() {
    let mut world = world!(DockerEngine::start_with_live_restore());
    let script = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.1; done";
    let (pod, pod_id, id) = world.run_script("restart", script).await;
    let mut runtime = world.cri.runtime.clone();
    let events = runtime.get_container_events(GetEventsRequest::default());
    let mut events = events.await.unwrap().into_inner();

    world.engine.stop();
    let away = world.wait_ready(false).await;
    assert_eq!(away.reason, "DockerDaemonNotReady");
    assert!(away.message.contains("docker.sock"), "{}", away.message);
    let error = world.cri.containers().await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::Unavailable, "{error}");

    world.engine.start_again();
    world.wait_ready(true).await;
    assert_eq!(
        world.cri.containers().await.unwrap(),
        std::slice::from_ref(&id)
    );
    let log = pod.logs().join("main.log");
    let lines = || std::fs::read_to_string(&log).unwrap().lines().count();
    let before = lines();
    eventually("the log goes on", || lines() > before).await;
    let numbers: Vec<u32> = std::fs::read_to_string(&log)
        .unwrap()
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(
        numbers.windows(2).all(|pair| pair[0] < pair[1]),
        "nothing is doubled: {numbers:?}"
    );

    world.cri.stop(&id, 0).await.unwrap();
    let stopped = async {
        loop {
            let event = events.message().await.unwrap().expect("the stream goes on");
            if event.container_id == id
                && event.container_event_type() == ContainerEventType::ContainerStoppedEvent
            {
                return event;
            }
        }
    };
    let event = tokio::time::timeout(Duration::from_secs(30), stopped)
        .await
        .unwrap();
    assert_eq!(event.pod_sandbox_status.unwrap().id, pod_id);
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_hangs_is_not_ready_and_holds_up_nobody() {
    let mut world = world!();
    world.engine.signal(Signal::STOP);
    let begun = Instant::now();
    let away = world.wait_ready(false).await;
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(away.message.contains("did not answer"), "{}", away.message);
    world.engine.signal(Signal::CONT);
    world.wait_ready(true).await;
    let (_, _, id) = world.run_script("after", "exit 0").await;
    world.cri.wait_exited(&id).await;
    world.node.finish().await;
}
