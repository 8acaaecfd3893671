//! An engine that goes, hangs and comes back.

use std::time::{Duration, Instant};

use orlop_cri_api::v1::{ContainerEventType, ContainerState, GetEventsRequest, PodSandboxState};
use orlop_testkit::DockerEngine;
use rustix::process::Signal;

use crate::world::{eventually, world};

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_restarted_is_found_again_with_its_containers() {
    let mut world = world!(DockerEngine::start_with_live_restore());
    let script = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.1; done";
    let (pod, pod_id, id) = world.run_script("restart", script).await;
    let mut runtime = world.cri.runtime();
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

#[tokio::test(flavor = "multi_thread")]
async fn without_live_restore_containers_end_with_the_engine_and_their_pods_come_anew() {
    let mut world = world!();
    let script = "trap 'echo bye; exit 0' TERM; echo begun; while :; do sleep 0.1; done";
    let (pod, pod_id, id) = world.run_script("ends", script).await;
    let log = pod.logs().join("main.log");
    let ends_with = |words: &str| std::fs::read_to_string(&log).is_ok_and(|it| it.ends_with(words));
    eventually("the first words", || ends_with("F begun\n")).await;
    let mut runtime = world.cri.runtime();
    let events = runtime.get_container_events(GetEventsRequest::default());
    let mut events = events.await.unwrap().into_inner();
    world.engine.stop();
    world.wait_ready(false).await;
    world.engine.start_again();
    world.wait_ready(true).await;

    let status = world.cri.status(&id).await.unwrap();
    assert_eq!(status.state(), ContainerState::ContainerExited);
    eventually("the last words", || ends_with("F bye\n")).await;
    let status = world.cri.pod_status(&pod_id).await.unwrap();
    assert_eq!(status.state(), PodSandboxState::SandboxNotready);
    // Told once, whether the engine said so before it went or it was found out afterwards.
    let heard = async {
        let mut heard = Vec::new();
        while heard.len() < 2 {
            let event = events.message().await.unwrap().expect("the stream goes on");
            assert_eq!(
                event.container_event_type(),
                ContainerEventType::ContainerStoppedEvent
            );
            let pod = event.pod_sandbox_status.expect("a pod's status");
            assert_eq!(pod.state(), PodSandboxState::SandboxNotready);
            heard.push(event.container_id);
        }
        heard
    };
    let mut heard = tokio::time::timeout(Duration::from_secs(30), heard)
        .await
        .unwrap();
    heard.sort();
    let mut both = [pod_id.clone(), id];
    both.sort();
    assert_eq!(heard, both);

    // As the kubelet does: another sandbox, then the old one goes.
    let pod = pod.attempt(1);
    let anew = world.cri.run_pod(&pod).await.unwrap();
    let spec = world.container("main").shell("exit 4").attempt(1);
    let id = world.cri.run(&anew, &pod, &spec).await.unwrap();
    assert_eq!(world.cri.wait_exited(&id).await.exit_code, 4);
    world.cri.stop_pod(&pod_id).await.unwrap();
    world.cri.remove_pod(&pod_id).await.unwrap();
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_vanishes_and_returns_is_used_again() {
    let world = world!();
    let (_, _, id) = world.run_script("before", "sleep 1000").await;
    let socket = world.engine.socket();
    let away = socket.with_extension("away");
    std::fs::rename(&socket, &away).unwrap();
    let told = world.wait_ready(false).await;
    assert!(
        told.message.contains("No such file or directory"),
        "{}",
        told.message
    );
    let error = world.cri.status(&id).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::Unavailable, "{error}");
    std::fs::rename(&away, &socket).unwrap();
    world.wait_ready(true).await;
    let answer = world.cri.exec(&id, &["echo", "back"]).await.unwrap();
    assert_eq!(answer.stdout, b"back\n");
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_removed_behind_our_back_is_told_of_and_let_go() {
    let world = world!();
    let (pod, pod_id, id) = world.run_script("behind", "sleep 1000").await;
    // One that is made and not started yet, too.
    let spec = world.container("other").shell("exit 0");
    let made = world.cri.create(&pod_id, &pod, &spec).await.unwrap();
    let mut runtime = world.cri.runtime();
    let events = runtime.get_container_events(GetEventsRequest::default());
    let mut events = events.await.unwrap().into_inner();
    world.engine.docker(&["rm", "-f", &id, &made]);
    let deleted = async {
        loop {
            let event = events.message().await.unwrap().expect("the stream goes on");
            if event.container_id == id
                && event.container_event_type() == ContainerEventType::ContainerDeletedEvent
            {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), deleted)
        .await
        .unwrap();
    for gone in [&id, &made] {
        let error = world.cri.status(gone).await.unwrap_err();
        assert_eq!(error.code(), tonic::Code::NotFound, "{error}");
        let error = world.cri.start(gone).await.unwrap_err();
        assert_eq!(error.code(), tonic::Code::NotFound, "{error}");
        world.cri.stop(gone, 0).await.unwrap();
        world.cri.remove(gone).await.unwrap();
    }
    let spec = world.container("main").shell("exit 0").attempt(1);
    let id = world.cri.run(&pod_id, &pod, &spec).await.unwrap();
    world.cri.wait_exited(&id).await;
    world.node.finish().await;
}
