//! Pods and containers, from their making to their removal.

use orlop_cri_api::v1::{
    ContainerState, ListPodSandboxRequest, ListPodSandboxStatsRequest, PodSandboxState,
    RunPodSandboxRequest, StatusRequest, UpdateContainerResourcesRequest,
};
use orlop_testkit::DockerEngine;

use crate::world::world;

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_lives_and_leaves_nothing() {
    let world = world!();
    let pod = world
        .node
        .pod("life")
        .own_network()
        .hostname("ahoy")
        .label("app", "web")
        .annotation("note", "x=y")
        .with(|config| {
            let dns = config.dns_config.get_or_insert_default();
            dns.servers = vec!["10.9.8.7".into()];
            dns.searches = vec!["a.example".into()];
        });
    let pod_id = world.cri.run_pod(&pod).await.unwrap();
    assert_eq!(
        world.inspect(&pod_id, "{{.Name}} {{.HostConfig.NetworkMode}}"),
        format!("/k8s_POD_life_{0}_{0}-life_0 none", world.node.id())
    );
    let checkpoint = std::fs::read_to_string(world.checkpoints().join(&pod_id)).unwrap();
    assert!(
        checkpoint.starts_with(r#"{"version":"v1","name":"life""#),
        "{checkpoint}"
    );
    let status = world.cri.pod_status(&pod_id).await.unwrap();
    assert_eq!(status.state(), PodSandboxState::SandboxReady);
    assert_eq!(
        (&*status.labels["app"], &*status.annotations["note"]),
        ("web", "x=y")
    );
    let address = status.network.unwrap().ip;
    assert!(!address.is_empty());

    let spec = world
        .container("main")
        .env("GREETING", "moin")
        .memory(64 << 20)
        .shell(
            "echo $GREETING from $(hostname); ip -4 addr show eth0; cat /etc/resolv.conf; exit 3",
        );
    let id = world.cri.run(&pod_id, &pod, &spec).await.unwrap();
    let ended = world.cri.wait_exited(&id).await;
    assert_eq!((ended.exit_code, &*ended.reason), (3, "Error"));
    let log = std::fs::read_to_string(pod.logs().join("main.log")).unwrap();
    for wanted in [
        "stdout F moin from ahoy",
        &address,
        "nameserver 10.9.8.7",
        "search a.example",
    ] {
        assert!(log.contains(wanted), "{wanted} is not in {log}");
    }
    assert_eq!(
        world.inspect(&id, "{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}}"),
        "67108864 67108864"
    );
    // The engine would run it once more.
    assert!(world.cri.start(&id).await.is_err());

    for _ in 0..2 {
        world.cri.stop_pod(&pod_id).await.unwrap();
    }
    assert_eq!(
        world.cri.pod_status(&pod_id).await.unwrap().state(),
        PodSandboxState::SandboxNotready
    );
    for _ in 0..2 {
        world.cri.remove_pod(&pod_id).await.unwrap();
    }
    assert_eq!(world.engine.docker(&["ps", "-aq"]), "");
    assert_eq!(std::fs::read_dir(world.checkpoints()).unwrap().count(), 0);
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_of_others_are_left_alone() {
    let world = world!();
    let other = world.engine.docker(&[
        "run",
        "-d",
        "--network=none",
        "--name=other",
        crate::world::BUSYBOX,
        "sleep",
        "1000",
    ]);
    assert!(world.cri.containers().await.unwrap().is_empty());
    for id in [&*other, "other"] {
        assert_eq!(
            world.cri.status(id).await.unwrap_err().code(),
            tonic::Code::NotFound
        );
        world.cri.stop(id, 0).await.unwrap();
        world.cri.remove(id).await.unwrap();
        world.cri.stop_pod(id).await.unwrap();
        world.cri.remove_pod(id).await.unwrap();
    }
    assert_eq!(world.inspect(&other, "{{.State.Running}}"), "true");
    world.engine.docker(&["rm", "-f", "other"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_and_limits_are_those_of_the_cgroup() {
    let world = world!();
    let (_, pod_id, id) = world.run_script("figures", "while :; do :; done").await;
    let request = ListPodSandboxStatsRequest::default();
    let mut last = 0;
    for _ in 0..2 {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let answer = world
            .cri
            .runtime()
            .list_pod_sandbox_stats(request.clone())
            .await;
        let stats = answer.unwrap().into_inner().stats;
        assert_eq!(stats[0].attributes.as_ref().unwrap().id, pod_id);
        let pod = stats[0].linux.as_ref().unwrap();
        let container = &pod.containers[0];
        assert_eq!(container.attributes.as_ref().unwrap().id, id);
        let used = container
            .cpu
            .as_ref()
            .unwrap()
            .usage_core_nano_seconds
            .unwrap()
            .value;
        assert!(used > last, "{used} after {last}");
        last = used;
        assert!(
            pod.cpu
                .as_ref()
                .unwrap()
                .usage_core_nano_seconds
                .unwrap()
                .value
                >= used
        );
        assert!(
            container
                .memory
                .as_ref()
                .unwrap()
                .working_set_bytes
                .unwrap()
                .value
                > 0
        );
    }
    let mut request = UpdateContainerResourcesRequest {
        container_id: id.clone(),
        ..Default::default()
    };
    request.linux.get_or_insert_default().cpu_shares = 64;
    world
        .cri
        .runtime()
        .update_container_resources(request)
        .await
        .unwrap();
    let resources = world.cri.status(&id).await.unwrap().resources.unwrap();
    assert_eq!(resources.linux.unwrap().cpu_shares, 64);
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_start_says_why_and_has_ended() {
    let world = world!();
    let pod = world.node.pod("missing");
    let pod_id = world.cri.run_pod(&pod).await.unwrap();
    let spec = world.container("main").command(&["/no/such/program"]);
    let id = world.cri.create(&pod_id, &pod, &spec).await.unwrap();
    let error = world.cri.start(&id).await.unwrap_err();
    assert!(error.message().contains("/no/such/program"), "{error}");
    let status = world.cri.status(&id).await.unwrap();
    assert_eq!(status.state(), ContainerState::ContainerExited);
    assert_eq!(status.reason, "ContainerCannotRun");
    assert!(
        pod.logs().join("main.log").is_file(),
        "there is a log all the same"
    );
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_are_the_engines_runtimes() {
    let world = world!(DockerEngine::settings().runtime("second", "runc").start());
    let mut runtime = world.cri.runtime();
    let status = runtime.status(StatusRequest::default()).await.unwrap();
    let handlers = status.into_inner().runtime_handlers;
    let names: Vec<&str> = handlers.iter().map(|one| one.name.as_str()).collect();
    for wanted in ["", "docker", "runc", "second"] {
        assert!(names.contains(&wanted), "{wanted:?} of {names:?}");
    }
    for (index, (handler, theirs)) in [("", "runc"), ("runc", "runc"), ("second", "second")]
        .into_iter()
        .enumerate()
    {
        let pod = world.node.pod(&format!("by{index}"));
        let request = RunPodSandboxRequest {
            config: Some(pod.config()),
            runtime_handler: handler.to_owned(),
        };
        let answer = runtime.run_pod_sandbox(request).await.unwrap();
        let pod_id = answer.into_inner().pod_sandbox_id;
        let spec = world.container("main").command(&["sleep", "1000"]);
        let id = world.cri.run(&pod_id, &pod, &spec).await.unwrap();
        for one in [&pod_id, &id] {
            assert_eq!(world.inspect(one, "{{.HostConfig.Runtime}}"), theirs);
        }
        let status = world.cri.pod_status(&pod_id).await.unwrap();
        assert_eq!(status.runtime_handler, handler);
        assert!(
            status.labels.keys().all(|key| !key.contains("orlop")),
            "{status:?}"
        );
        let listed = runtime.list_pod_sandbox(ListPodSandboxRequest::default());
        let listed = listed.await.unwrap().into_inner().items;
        let listed = listed.iter().find(|one| one.id == pod_id).unwrap();
        assert_eq!(listed.runtime_handler, handler);
    }
    let request = RunPodSandboxRequest {
        config: Some(world.node.pod("unknown").config()),
        runtime_handler: "third".to_owned(),
    };
    let error = runtime.run_pod_sandbox(request).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::InvalidArgument, "{error}");
    assert!(error.message().contains("daemon.json"), "{error}");
    world.node.finish().await;
}
