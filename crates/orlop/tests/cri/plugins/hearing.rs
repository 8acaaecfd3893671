//! What plugins are told, and when they take part.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use orlop_cri_api::v1::{
    LinuxContainerResources, UpdateContainerResourcesRequest, UpdatePodSandboxResourcesRequest,
};
use orlop_testkit::nri::v1alpha1::{Container, SynchronizeResponse};
use orlop_testkit::{Manners, Node};

use super::{adds, expected_shares, kernel_shares, names, plugin, shares, shares_of, update};
use crate::world::{World, ours, world};

#[tokio::test]
async fn a_plugin_hears_of_all_in_order_and_of_each_once() {
    let world = ours!();
    let listener = plugin(&world, "10", "listener", Manners::default()).await;
    let spec = world.container("main").shell("sleep 600");
    let pod = world
        .node
        .pod("told")
        .label("app", "web")
        .annotation("note", "x");
    let pod_id = world.run_pod(&pod).await;
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let request = UpdateContainerResourcesRequest {
        container_id: id.clone(),
        linux: Some(LinuxContainerResources {
            cpu_shares: 512,
            ..LinuxContainerResources::default()
        }),
        ..UpdateContainerResourcesRequest::default()
    };
    let mut client = world.cri.runtime();
    let done = client.update_container_resources(request).await;
    done.expect("update");
    let request = UpdatePodSandboxResourcesRequest {
        pod_sandbox_id: pod_id.clone(),
        resources: Some(LinuxContainerResources {
            cpu_shares: 600,
            ..LinuxContainerResources::default()
        }),
        ..UpdatePodSandboxResourcesRequest::default()
    };
    let done = client.update_pod_sandbox_resources(request).await;
    done.expect("update");
    world.cri.stop(&id, 0).await.expect("stop");
    world.cri.stop(&id, 0).await.expect("stop again");
    world.cri.remove(&id).await.expect("remove");
    world.cri.stop_pod(&pod_id).await.expect("stop the pod");
    let done = world.cri.stop_pod(&pod_id).await;
    done.expect("stop the pod again");
    world.cri.remove_pod(&pod_id).await.expect("remove the pod");

    let calls = listener.calls();
    let methods: Vec<_> = calls.iter().map(|call| call.method.as_str()).collect();
    assert_eq!(
        methods,
        [
            "RunPodSandbox",
            "CreateContainer",
            "ValidateContainerAdjustment",
            "PostCreateContainer",
            "StartContainer",
            "PostStartContainer",
            "UpdateContainer",
            "PostUpdateContainer",
            "UpdatePodSandbox",
            "PostUpdatePodSandbox",
            "StopContainer",
            "RemoveContainer",
            "StopPodSandbox",
            "RemovePodSandbox",
        ]
    );
    let first = &calls[0].pod;
    assert_eq!(
        (first.id.as_str(), first.name.as_str()),
        (pod_id.as_str(), "told")
    );
    assert_eq!(
        (
            first.labels["app"].as_str(),
            first.annotations["note"].as_str()
        ),
        ("web", "x")
    );
    assert_ne!(first.pid, 0);
    for call in &calls[1..8] {
        let own = &call.container;
        assert_eq!((own.id.as_str(), own.name.as_str()), (id.as_str(), "main"));
        assert_eq!(own.pod_sandbox_id, pod_id);
        assert!(own.args.contains(&"sleep 600".to_owned()), "{own:?}");
        assert!(
            own.env.iter().any(|one| one.starts_with("PATH=")),
            "{own:?}"
        );
        assert!(!own.mounts.is_empty());
    }
    let after = &calls[7].container;
    let resources = after
        .linux
        .clone()
        .expect("linux")
        .resources
        .expect("resources");
    assert_eq!(
        resources.cpu.expect("cpu").shares.expect("shares").value,
        512
    );
    assert_ne!(calls[5].container.pid, 0, "it runs when its start is told");
    assert_eq!(calls[10].container.exit_code, 137);
    assert_eq!(calls[11].container.name, "main");
    world.finish().await;
}

#[tokio::test]
async fn adjustments_hold_over_a_restart_and_the_plugin_is_told_all_again() {
    let mut world = ours!();
    let adjuster = plugin(&world, "10", "adjuster", adds("ADDED", "1")).await;
    let running = world.run_script("kept", "sleep 600").await;
    let created = world.container("created").shell("echo got $ADDED");
    let created_id = world
        .cri
        .create(&running.pod_id, &running.pod, &created)
        .await;
    let created_id = created_id.expect("create");
    world.node.kill9();
    adjuster.stub().closed().await;
    world.start_again().await;
    // Without the plugin.
    world.cri.start(&created_id).await.expect("start");
    world.cri.wait_exited(&created_id).await;
    let log = orlop_testkit::cri::read_log(&running.pod.logs().join("created.log"));
    assert_eq!(log[0].content, b"got 1");

    let resources = running.id.clone();
    let manners = Manners::default().synchronizes(move |state| SynchronizeResponse {
        update: vec![update(&resources, shares(512))],
        more: state.more,
    });
    let again = plugin(&world, "10", "adjuster", manners).await;
    let state = again.synchronized().expect("it was told");
    let pods: Vec<_> = state.pods.iter().map(|pod| pod.id.as_str()).collect();
    assert_eq!(pods, [running.pod_id.as_str()]);
    let containers: Vec<&Container> = state.containers.iter().collect();
    assert_eq!(
        containers.len(),
        1,
        "what has ended is not told: {containers:?}"
    );
    assert_eq!(containers[0].id, running.id);
    assert!(containers[0].env.contains(&"ADDED=1".to_owned()));
    assert_ne!(containers[0].pid, 0);
    orlop_testkit::wait_until!(
        Duration::from_secs(20),
        shares_of(&world, &running.id).await == 512,
        "{}",
        world.node.log()
    );
    assert_eq!(
        kernel_shares(&world, &running.id).await,
        expected_shares(512)
    );
    world.finish().await;
}

/// The program of the next test, which the daemon starts as a plugin.
#[tokio::test]
#[ignore = "the process that another test starts"]
async fn as_a_plugin() {
    adds("PREINSTALLED", "1").serve_inherited().await;
}

#[tokio::test]
async fn a_pre_installed_plugin_is_there_before_the_first_container() {
    let programs = tempfile::tempdir().expect("a directory");
    let program = programs.path().join("05-first");
    let own = std::env::current_exe().expect("the test's own path");
    let script = format!(
        "#!/bin/sh\n[ \"$NRI_PLUGIN_NAME-$NRI_PLUGIN_IDX\" = first-05 ] || exit 7\n\
         exec {} --exact plugins::hearing::as_a_plugin --ignored --nocapture\n",
        own.display()
    );
    std::fs::write(&program, script).expect("write a script");
    let broken = programs.path().join("90-broken");
    std::fs::write(&broken, "#!/bin/sh\necho out of order >&2\nexit 3\n").expect("write a script");
    for path in [&program, &broken] {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, mode).expect("make it executable");
    }
    let config = format!("[nri]\nplugin_dir = {:?}", programs.path());
    let mut world = world!(Node::orlop().drop_in(&config));
    assert_eq!(names(&world).await, ["05-first"]);
    assert!(world.node.log().contains("out of order"));
    let spec = world.container("main").shell("echo $PREINSTALLED");
    assert_eq!(world.output("first", &spec).await, (0, "1\n".to_owned()));
    // It ends with the daemon, and comes back with it.
    let pid = plugin_pid(&world).await;
    world.node.stop();
    orlop_testkit::wait_until!(
        Duration::from_secs(10),
        !std::path::Path::new(&format!("/proc/{pid}/fd/0")).exists(),
        "plugin {pid} outlives its daemon"
    );
    world.start_again().await;
    assert_eq!(names(&world).await, ["05-first"]);
    world.finish().await;
}

async fn plugin_pid(world: &World) -> u64 {
    let request = orlop_cri_api::v1::StatusRequest { verbose: true };
    let status = world.cri.runtime().status(request).await;
    let info: HashMap<String, String> = status.expect("status").into_inner().info;
    let state: serde_json::Value = serde_json::from_str(&info["nri"]).expect("JSON");
    state["plugins"][0]["pid"].as_u64().expect("a process")
}
