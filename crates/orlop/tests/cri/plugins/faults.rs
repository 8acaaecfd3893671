//! Plugins that refuse, hang, die or send nonsense.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{ContainerState, PodSandboxState};
use orlop_testkit::{Manners, Node, assert_contains};

use super::{HASTY, adds, names, plugin, taking_part};
use crate::world::{ours, world};

#[tokio::test]
async fn a_refused_pod_or_container_leaves_nothing_and_can_be_tried_again() {
    let world = ours!();
    let manners = Manners::default().refuses("RunPodSandbox");
    let refuser = plugin(&world, "10", "refuser", manners).await;
    let pod = world.node.pod("refused");
    let error = world.cri.run_pod(&pod).await.expect_err("it is refused");
    for word in ["10-refuser", "RunPodSandbox", "the test refuses"] {
        assert!(error.message().contains(word), "{error}");
    }
    assert!(world.cri.pods().await.expect("list").is_empty());
    let methods: Vec<_> = refuser
        .calls()
        .into_iter()
        .map(|call| call.method)
        .collect();
    assert_eq!(
        methods,
        ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]
    );
    refuser.leave();
    taking_part(&world, "10-refuser", false).await;
    let pod_id = world.run_pod(&pod).await;

    for method in ["CreateContainer", "ValidateContainerAdjustment"] {
        let refuser = plugin(&world, "10", "refuser", Manners::default().refuses(method)).await;
        let spec = world.container("main").shell("sleep 600");
        let error = world.cri.create(&pod_id, &pod, &spec).await;
        let error = error.expect_err("it is refused");
        assert!(error.message().contains("the test refuses"), "{error}");
        assert!(world.cri.containers().await.expect("list").is_empty());
        let methods: Vec<_> = refuser
            .calls()
            .into_iter()
            .map(|call| call.method)
            .collect();
        assert_eq!(
            methods[methods.len() - 2..],
            ["StopContainer", "RemoveContainer"]
        );
        refuser.leave();
        taking_part(&world, "10-refuser", false).await;
    }

    let manners = Manners::default().refuses("StartContainer");
    let refuser = plugin(&world, "10", "refuser", manners).await;
    let spec = world.container("main").shell("sleep 600");
    let id = world.cri.create(&pod_id, &pod, &spec).await;
    let id = id.expect("create");
    let error = world.cri.start(&id).await.expect_err("it is refused");
    assert!(error.message().contains("the test refuses"), "{error}");
    let status = world.cri.status(&id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerExited);
    assert_eq!(
        (status.exit_code, status.reason.as_str()),
        (128, "StartError")
    );
    refuser.wait_for("StopContainer", &id).await;
    world.finish().await;
}

#[tokio::test]
async fn a_plugin_that_hangs_or_dies_is_left_behind() {
    let world = world!(Node::orlop().drop_in(HASTY));
    let manners = Manners::default().hangs_in("CreateContainer");
    let hanging = plugin(&world, "10", "hanging", manners).await;
    let _good = plugin(&world, "20", "good", adds("GOOD", "1")).await;
    let spec = world.container("main").shell("echo good=$GOOD");
    let begun = Instant::now();
    let (code, output) = world.output("hung", &spec).await;
    assert_eq!((code, output.as_str()), (0, "good=1\n"));
    assert!(begun.elapsed() < Duration::from_secs(20));
    hanging.stub().closed().await;
    assert_eq!(names(&world).await, ["20-good"]);
    let log = world.node.log();
    let line = log
        .lines()
        .find(|line| line.contains("an NRI plugin disconnected"));
    let line = line.expect("a line in the log");
    assert_contains!(line, "10-hanging", "CreateContainer");

    // One that hangs up in the middle.
    let manners = Manners::default().hangs_in("StartContainer");
    let dying = plugin(&world, "30", "dying", manners).await;
    let pod = world.node.pod("orphaned");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").shell("sleep 600");
    let id = world.cri.create(&pod_id, &pod, &spec).await;
    let id = id.expect("create");
    let starting = {
        let (cri, id) = (world.cri.clone(), id.clone());
        tokio::spawn(async move { cri.start(&id).await })
    };
    dying.wait_for("StartContainer", &id).await;
    dying.leave();
    starting.await.expect("a task").expect("start");
    taking_part(&world, "30-dying", false).await;
    let status = world.cri.pod_status(&pod_id).await.expect("status");
    assert_eq!(status.state(), PodSandboxState::SandboxReady);
    world.finish().await;
}

#[tokio::test]
async fn rubbish_on_the_socket_harms_nobody() {
    use tokio::io::AsyncWriteExt as _;
    let world = ours!();
    let _good = plugin(&world, "20", "good", adds("GOOD", "1")).await;
    for bytes in [
        &[0xff; 64][..],
        &[0; 64][..],
        // A message of the largest size that never comes.
        &[
            0, 0, 0, 2, 0, 0, 0, 10, 0, 0x3f, 0xff, 0xff, 0, 0, 0, 1, 1, 0,
        ][..],
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let socket = tokio::net::UnixStream::connect(world.node.plugin_socket()).await;
        let mut socket = socket.expect("connect");
        // The daemon may hang up at once.
        let _ = socket.write_all(bytes).await;
    }
    let spec = world.container("main").shell("echo good=$GOOD");
    assert_eq!(
        world.output("calm", &spec).await,
        (0, "good=1\n".to_owned())
    );
    let mode = std::fs::metadata(world.node.plugin_socket()).expect("a socket");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    world.finish().await;
}
