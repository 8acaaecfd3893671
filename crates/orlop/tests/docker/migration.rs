//! A node that moves from cri-dockerd: its pods run on, known by their names, labels and
//! checkpoints.

use orlop_cri::v1::{PodSandboxState, ReopenContainerLogRequest};

use crate::world::{BUSYBOX, eventually, world};

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_cri_dockerd_are_taken_over() {
    let mut world = world!();
    world.node.stop();
    let logs = world.node.scratch().subdir("their-logs");
    let log = logs.join("0.log");
    let sandbox = world.engine.docker(&[
        "run",
        "-d",
        "--network=host",
        "--ipc=shareable",
        "--name=k8s_POD_old_space_uid1_2",
        "--label=io.kubernetes.docker.type=podsandbox",
        "--label=io.kubernetes.container.name=POD",
        "--label=io.kubernetes.pod.name=old",
        "--label=annotation.key=value",
        BUSYBOX,
        "sleep",
        "1000",
    ]);
    let container = world.engine.docker(&[
        "run",
        "-d",
        &format!("--network=container:{sandbox}"),
        "--name=k8s_app_old_space_uid1_5",
        "--label=io.kubernetes.docker.type=container",
        &format!("--label=io.kubernetes.sandbox.id={sandbox}"),
        &format!("--label=io.kubernetes.container.logpath={}", log.display()),
        "--label=io.kubernetes.container.name=app",
        BUSYBOX,
        "sh",
        "-c",
        "while :; do date; sleep 0.2; done",
    ]);
    // As cri-dockerd does: the log is a link, the checkpoint has its checksum.
    let theirs = world
        .engine
        .docker(&["inspect", "--format", "{{.LogPath}}", &container]);
    std::os::unix::fs::symlink(&theirs, &log).unwrap();
    std::fs::write(
        world.checkpoints().join(&sandbox),
        r#"{"version":"v1","name":"old","namespace":"space","data":{"host_network":true},"checksum":12315789}"#,
    )
    .unwrap();

    world.node.start_again().await;
    world.cri = world.node.cri().await;
    world.wait_ready(true).await;
    assert_eq!(
        world.cri.pods().await.unwrap(),
        std::slice::from_ref(&sandbox)
    );
    let status = world.cri.pod_status(&sandbox).await.unwrap();
    let metadata = status.metadata.clone().unwrap();
    assert_eq!((&*metadata.name, &*metadata.namespace), ("old", "space"));
    assert_eq!((&*metadata.uid, metadata.attempt), ("uid1", 2));
    assert_eq!(status.annotations["key"], "value");
    assert_eq!(
        world.cri.containers().await.unwrap(),
        std::slice::from_ref(&container)
    );
    let status = world.cri.status(&container).await.unwrap();
    assert_eq!(status.metadata.unwrap().attempt, 5);
    assert_eq!(status.log_path, log.display().to_string());
    let answer = world
        .cri
        .exec(&container, &["echo", "hello"])
        .await
        .unwrap();
    assert_eq!(answer.stdout, b"hello\n");

    // The kubelet rotates the log: from here on it is a file.
    std::fs::rename(&log, logs.join("0.log.old")).unwrap();
    let request = ReopenContainerLogRequest {
        container_id: container.clone(),
    };
    world
        .cri
        .runtime
        .clone()
        .reopen_container_log(request)
        .await
        .unwrap();
    eventually("a log of ours", || {
        !log.is_symlink() && std::fs::read_to_string(&log).is_ok_and(|text| text.contains(" F "))
    })
    .await;

    world.cri.stop_pod(&sandbox).await.unwrap();
    world.cri.remove_pod(&sandbox).await.unwrap();
    assert_eq!(world.engine.docker(&["ps", "-aq"]), "");
    assert_eq!(std::fs::read_dir(world.checkpoints()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_removed_behind_our_back_can_still_be_undone() {
    let world = world!();
    let pod = world.node.pod("ghost").own_network();
    let id = world.cri.run_pod(&pod).await.unwrap();
    world.engine.docker(&["rm", "-f", &id]);
    assert_eq!(
        world.cri.pods().await.unwrap(),
        std::slice::from_ref(&id),
        "only its checkpoint tells of it"
    );
    let mut runtime = world.cri.runtime.clone();
    let listed = runtime.list_pod_sandbox(orlop_cri::v1::ListPodSandboxRequest::default());
    let listed = listed.await.unwrap().into_inner().items;
    assert_eq!(listed[0].state(), PodSandboxState::SandboxNotready);
    assert_eq!(listed[0].metadata.as_ref().unwrap().name, "ghost");
    world.cri.stop_pod(&id).await.unwrap();
    assert!(world.cri.pods().await.unwrap().is_empty());
    world.cri.remove_pod(&id).await.unwrap();
    // Its address is free again.
    let dirs = world.node.root().join("docker/network/attachments");
    assert_eq!(std::fs::read_dir(dirs).unwrap().count(), 0);
    world.node.finish().await;
}
