//! A node that moves from cri-dockerd: its pods run on, known by their names, labels and
//! checkpoints.

use orlop_cri_api::v1::PodSandboxState;

use orlop_testkit::docker::{CriDockerd, Shared};

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

    world.start_again().await;
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
    let answer = world.cri.exec(&container, &["echo", "hello"]).await;
    let answer = answer.unwrap();
    assert_eq!(answer.stdout, b"hello\n");

    // The kubelet rotates the log: from here on it is a file.
    std::fs::rename(&log, logs.join("0.log.old")).unwrap();
    world.cri.reopen_log(&container).await.unwrap();
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
    let spec = world.container("main").command(&["sleep", "1000"]);
    let runs_on = world.cri.run(&id, &pod, &spec).await.unwrap();
    world.engine.docker(&["rm", "-f", &id]);
    assert_eq!(world.inspect(&runs_on, "{{.State.Running}}"), "true");
    assert_eq!(
        world.cri.pods().await.unwrap(),
        std::slice::from_ref(&id),
        "only its checkpoint tells of it"
    );
    let mut runtime = world.cri.runtime();
    let listed = runtime.list_pod_sandbox(orlop_cri_api::v1::ListPodSandboxRequest::default());
    let listed = listed.await.unwrap().into_inner().items;
    assert_eq!(listed[0].state(), PodSandboxState::SandboxNotready);
    assert_eq!(listed[0].metadata.as_ref().unwrap().name, "ghost");
    world.cri.stop_pod(&id).await.unwrap();
    assert_eq!(world.inspect(&runs_on, "{{.State.Running}}"), "false");
    assert!(world.cri.pods().await.unwrap().is_empty());
    world.cri.remove_pod(&id).await.unwrap();
    assert!(world.cri.containers().await.unwrap().is_empty());
    // Its address is free again.
    let dirs = world.node.root().join("docker/network/attachments");
    assert_eq!(std::fs::read_dir(dirs).unwrap().count(), 0);
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_move_to_cri_dockerd_and_back_while_they_run() {
    orlop_testkit::skip_unless!(CriDockerd::program().map(drop));
    let mut world = world!();
    let program = CriDockerd::program().unwrap();
    let api = world
        .engine
        .docker(&["version", "--format", "{{.Server.APIVersion}}"]);
    if api == "1.41" {
        orlop_testkit::skip!("cri-dockerd wants a newer engine than one of API {api}");
    }
    let dns = |config: &mut orlop_cri_api::v1::PodSandboxConfig| {
        let dns = config.dns_config.get_or_insert_default();
        dns.servers = vec!["10.9.8.7".into()];
    };
    let ours = world.node.pod("ours").own_network().with(dns);
    let our_id = world.cri.run_pod(&ours).await.unwrap();
    let spec = world.container("main").command(&["sleep", "1000"]);
    let kept = world.cri.run(&our_id, &ours, &spec).await.unwrap();
    let ip = world
        .cri
        .pod_status(&our_id)
        .await
        .unwrap()
        .network
        .unwrap()
        .ip;
    let restarted = world.container("later").command(&["sleep", "1000"]);
    world.node.stop();

    // Theirs: pods of ours are known by their names, their checkpoints and their networks.
    let checkpoints = world.checkpoints();
    let scratch = world.node.scratch();
    let shared = Shared {
        cni_conf: &scratch.subdir("cni"),
        cni_cache: &scratch.subdir("cni-cache"),
        root: checkpoints.parent().unwrap(),
    };
    let dir = scratch.run().join("theirs");
    std::fs::create_dir(&dir).unwrap();
    let pause = "orlop.invalid/pause:1";
    let server = CriDockerd::start(&program, &world.engine, pause, shared, &dir);
    let cri = server.cri().await;
    assert_eq!(cri.pods().await.unwrap(), std::slice::from_ref(&our_id));
    let status = cri.pod_status(&our_id).await.unwrap();
    assert_eq!(status.state(), PodSandboxState::SandboxReady);
    assert_eq!(status.network.unwrap().ip, ip);
    let answer = cri.exec(&kept, &["echo", "hello"]).await.unwrap();
    assert_eq!(answer.stdout, b"hello\n");
    // What they start in it is in its network, with its names.
    let later = cri.run(&our_id, &ours, &restarted).await.unwrap();
    let answer = cri.exec(&later, &["cat", "/etc/resolv.conf"]).await;
    assert_eq!(answer.unwrap().stdout, b"nameserver 10.9.8.7\n");
    let theirs = world.node.pod("theirs").own_network().host_port(1, 80);
    let their_id = cri.run_pod(&theirs).await.unwrap();
    let id = cri.run(&their_id, &theirs, &spec).await.unwrap();
    let their_ip = cri.pod_status(&their_id).await.unwrap().network.unwrap().ip;
    drop(cri);
    drop(server);

    // Ours again.
    world.start_again().await;
    world.wait_ready(true).await;
    assert_eq!(world.cri.pods().await.unwrap().len(), 2);
    for (pod, ip) in [(&our_id, &ip), (&their_id, &their_ip)] {
        let status = world.cri.pod_status(pod).await.unwrap();
        assert_eq!(status.state(), PodSandboxState::SandboxReady);
        assert_eq!(&status.network.unwrap().ip, ip);
        assert_eq!(status.runtime_handler, "");
    }
    for id in [&kept, &later, &id] {
        let answer = world.cri.exec(id, &["echo", "back"]).await.unwrap();
        assert_eq!(answer.stdout, b"back\n");
    }
    for pod in [&our_id, &their_id] {
        world.cri.stop_pod(pod).await.unwrap();
        world.cri.remove_pod(pod).await.unwrap();
    }
    assert_eq!(std::fs::read_dir(&checkpoints).unwrap().count(), 0);
    // Their addresses are free again.
    let taken = std::fs::read_dir(world.node.scratch().path("ipam").join(world.node.id()));
    let taken: Vec<String> = taken
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("10."))
        .collect();
    assert!(taken.is_empty(), "{taken:?}");
    world.node.finish().await;
}
