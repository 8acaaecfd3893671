//! Pods: their states, their names, what their containers share.

use std::time::Duration;

use orlop_cri::v1::{
    ListPodSandboxRequest, NamespaceMode, PodSandboxFilter, PodSandboxState, PodSandboxStateValue,
};
use orlop_testkit::skip;
use tokio::io::AsyncReadExt;
use tonic::Code;

use crate::world::{until, world};

#[tokio::test]
async fn a_pod_is_ready_then_not_then_gone() {
    let world = world!();
    let pod = world
        .node
        .pod("life")
        .label("app", "ship")
        .annotation("note", "rough sea");
    let id = world.run_pod(&pod).await;
    let status = world.cri.pod_status(&id).await.expect("status");
    assert_eq!(status.id, id);
    assert_eq!(status.state(), PodSandboxState::SandboxReady);
    assert_eq!(status.metadata, pod.config().metadata);
    assert_eq!(status.labels["app"], "ship");
    assert_eq!(status.annotations["note"], "rough sea");
    assert!(
        status.created_at > 1_700_000_000_000_000_000,
        "not in nanoseconds: {status:?}"
    );
    let modes = status
        .linux
        .and_then(|linux| linux.namespaces)
        .and_then(|names| names.options);
    assert_eq!(
        modes.expect("namespace modes").network(),
        NamespaceMode::Node
    );

    world.cri.stop_pod(&id).await.expect("stop");
    world.cri.stop_pod(&id).await.expect("stop again");
    let status = world.cri.pod_status(&id).await.expect("status");
    assert_eq!(status.state(), PodSandboxState::SandboxNotready);
    world.cri.remove_pod(&id).await.expect("remove");
    world.cri.remove_pod(&id).await.expect("remove again");
    let error = world.cri.pod_status(&id).await.expect_err("it is gone");
    assert_eq!(error.code(), Code::NotFound, "{error}");
    assert_eq!(world.cri.pods().await.expect("list"), [""; 0]);
    world.finish().await;
}

#[tokio::test]
async fn stopping_what_never_was_is_no_error() {
    let world = world!();
    if world.node.is_peer() {
        skip!("containerd 1.6 answers NotFound, against the interface");
    }
    let unknown = "0".repeat(64);
    world.cri.stop_pod(&unknown).await.expect("stop a pod");
    world.cri.remove_pod(&unknown).await.expect("remove a pod");
    world.cri.stop(&unknown, 0).await.expect("stop a container");
    world
        .cri
        .remove(&unknown)
        .await
        .expect("remove a container");
    world.finish().await;
}

#[tokio::test]
async fn removing_a_running_pod_takes_its_containers_along() {
    let world = world!();
    let running = world.run_script("forced", "sleep 600").await;
    world.cri.remove_pod(&running.pod_id).await.expect("remove");
    let error = world
        .cri
        .status(&running.id)
        .await
        .expect_err("the container is gone");
    assert_eq!(error.code(), Code::NotFound, "{error}");
    world.finish().await;
}

#[tokio::test]
async fn stopping_a_pod_stops_its_containers() {
    let world = world!();
    let running = world.run_script("stopped", "sleep 600").await;
    world.cri.stop_pod(&running.pod_id).await.expect("stop");
    let status = world.cri.wait_exited(&running.id).await;
    assert!(status.finished_at >= status.started_at);
    let spec = world.container("late").shell("true");
    let late = world.cri.create(&running.pod_id, &running.pod, &spec).await;
    late.expect_err("a stopped pod takes no containers");
    world.finish().await;
}

#[tokio::test]
async fn lists_are_filtered() {
    let world = world!();
    let mut ids = Vec::new();
    for (name, app) in [("one", "ship"), ("two", "ship"), ("three", "boat")] {
        ids.push(world.run_pod(&world.node.pod(name).label("app", app)).await);
    }
    world.cri.stop_pod(&ids[1]).await.expect("stop");
    let list = |filter: PodSandboxFilter| {
        let mut client = world.cri.runtime.clone();
        async move {
            let request = ListPodSandboxRequest {
                filter: Some(filter),
            };
            let answer = client
                .list_pod_sandbox(request)
                .await
                .expect("list")
                .into_inner();
            let names = answer
                .items
                .into_iter()
                .map(|pod| pod.metadata.expect("metadata").name);
            let mut names: Vec<_> = names.collect();
            names.sort();
            names
        }
    };
    let ships = [("app".to_owned(), "ship".to_owned())].into();
    let by_label = PodSandboxFilter {
        label_selector: ships,
        ..PodSandboxFilter::default()
    };
    assert_eq!(list(by_label.clone()).await, ["one", "two"]);
    let ready = PodSandboxStateValue {
        state: PodSandboxState::SandboxReady.into(),
    };
    let by_state = PodSandboxFilter {
        state: Some(ready),
        ..PodSandboxFilter::default()
    };
    assert_eq!(list(by_state).await, ["one", "three"]);
    let by_both = PodSandboxFilter {
        state: Some(ready),
        ..by_label
    };
    assert_eq!(list(by_both).await, ["one"]);
    let by_id = PodSandboxFilter {
        id: ids[2].clone(),
        ..PodSandboxFilter::default()
    };
    assert_eq!(list(by_id).await, ["three"]);
    // The interface allows the head of an id where it is unique.
    let by_head = PodSandboxFilter {
        id: ids[2][..13].to_owned(),
        ..PodSandboxFilter::default()
    };
    assert_eq!(list(by_head).await, ["three"]);
    world.finish().await;
}

#[tokio::test]
async fn a_pod_with_its_own_network_has_an_address_that_answers() {
    let world = world!();
    orlop_testkit::skip_unless!(orlop_testkit::machine::has_program("ip"));
    if !std::path::Path::new("/usr/lib/cni/bridge").exists() {
        skip!("needs the package containernetworking-plugins");
    }
    let pod = world.node.pod("net").own_network().hostname("crow");
    let pod_id = world.run_pod(&pod).await;
    let network = world.cri.pod_status(&pod_id).await.expect("status").network;
    let ip = network.expect("a network status").ip;
    let subnet = world.node.scratch().subnet();
    let prefix = subnet.trim_end_matches("0/24");
    assert!(ip.starts_with(prefix), "{ip} is not in {subnet}");

    let script = "hostname; ip -o -4 addr show eth0; exec nc -l -p 8080 -e echo ahoy";
    let spec = world.container("main").shell(script);
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let answer = async {
        loop {
            if let Ok(mut stream) = tokio::net::TcpStream::connect((ip.as_str(), 8080)).await {
                let mut text = String::new();
                stream.read_to_string(&mut text).await.expect("read");
                return text;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let answer = tokio::time::timeout(Duration::from_secs(20), answer).await;
    assert_eq!(answer.expect("the pod answers"), "ahoy\n");
    world.cri.wait_exited(&id).await;
    let log = orlop_testkit::cri::read_log(&pod.logs().join("main.log"));
    assert_eq!(log[0].content, b"crow");
    let seen = String::from_utf8_lossy(&log[1].content).into_owned();
    assert!(
        seen.contains(&ip),
        "the pod sees {seen}, the node says {ip}"
    );
    world.finish().await;
}

#[tokio::test]
async fn containers_share_what_the_pod_says() {
    let world = world!();
    let pod = world.node.pod("shared").shared_pid();
    let pod_id = world.run_pod(&pod).await;
    let first = world.container("first").shell("echo $$; exec sleep 12345");
    world.cri.run(&pod_id, &pod, &first).await.expect("run");
    let second = world.container("second").shell("sleep 600");
    let second = world.cri.run(&pod_id, &pod, &second).await.expect("run");
    let ps = world
        .cri
        .exec(&second, &["ps", "-o", "args"])
        .await
        .expect("exec");
    let seen = String::from_utf8_lossy(&ps.stdout).into_owned();
    assert!(
        seen.contains("sleep 12345"),
        "the other container is not seen:\n{seen}"
    );

    // In a pod of the usual kind everyone is alone, and process 1.
    let alone = world.run_script("alone", "echo $$; sleep 600").await;
    let ps = world
        .cri
        .exec(&alone.id, &["ps", "-o", "args"])
        .await
        .expect("exec");
    let seen = String::from_utf8_lossy(&ps.stdout).into_owned();
    assert!(!seen.contains("12345"), "another pod is seen:\n{seen}");
    assert_eq!(until(&world, &alone, "1").await.trim(), "1");
    world.finish().await;
}

#[tokio::test]
async fn a_pod_s_resources_are_updated_kept_and_reported() {
    let mut world = world!();
    if world.node.is_peer() {
        skip!("containerd 1.6 does not know the call");
    }
    // No kubelet has made a cgroup for it.
    let pod = world.node.pod("resized").with(|config| {
        config.linux.get_or_insert_default().cgroup_parent = String::new();
    });
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").shell("sleep 600");
    world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let before = resources_told(&world, &pod_id).await;
    assert!(before.0.is_null() && before.1.is_null(), "{before:?}");
    let request = |memory, overhead| orlop_cri::v1::UpdatePodSandboxResourcesRequest {
        pod_sandbox_id: pod_id.clone(),
        resources: Some(orlop_cri::v1::LinuxContainerResources {
            memory_limit_in_bytes: memory,
            cpu_shares: 256,
            ..Default::default()
        }),
        overhead: Some(orlop_cri::v1::LinuxContainerResources {
            memory_limit_in_bytes: overhead,
            ..Default::default()
        }),
    };
    let mut runtime = world.cri.runtime.clone();
    runtime
        .update_pod_sandbox_resources(request(64 << 20, 1 << 20))
        .await
        .expect("update");
    // systemd's pods without a cgroup of their client's have none of their own.
    let driver = runtime.runtime_config(orlop_cri::v1::RuntimeConfigRequest {});
    let driver = driver.await.expect("configuration").into_inner().linux;
    let own_cgroup =
        driver.expect("Linux").cgroup_driver() == orlop_cri::v1::CgroupDriver::Cgroupfs;
    let in_force = |memory: u64| {
        if !own_cgroup {
            return;
        }
        let own = format!("orlop/{pod_id}");
        let files = [
            format!("/sys/fs/cgroup/memory/{own}/memory.limit_in_bytes"),
            format!("/sys/fs/cgroup/{own}/memory.max"),
        ];
        let limit = files
            .iter()
            .find_map(|file| std::fs::read_to_string(file).ok());
        assert_eq!(limit.expect("a limit").trim(), memory.to_string());
    };
    in_force(65 << 20);
    let after = resources_told(&world, &pod_id).await;
    assert_eq!(after.0["memoryLimitInBytes"], (64 << 20).to_string());
    assert_eq!(after.1["memoryLimitInBytes"], (1 << 20).to_string());

    // It holds across a restart, and an impossible wish changes nothing.
    world.node.kill9();
    world.node.start_again().await;
    world.cri = world.node.cri().await;
    let mut runtime = world.cri.runtime.clone();
    let error = runtime
        .update_pod_sandbox_resources(request(-7, 0))
        .await
        .expect_err("a negative limit");
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    assert_eq!(resources_told(&world, &pod_id).await, after);
    in_force(65 << 20);
    world.finish().await;
}

/// A pod's resources and overhead, as its verbose status tells them.
async fn resources_told(
    world: &crate::world::World,
    pod_id: &str,
) -> (serde_json::Value, serde_json::Value) {
    let request = orlop_cri::v1::PodSandboxStatusRequest {
        pod_sandbox_id: pod_id.to_owned(),
        verbose: true,
    };
    let answer = world.cri.runtime.clone().pod_sandbox_status(request).await;
    let info = answer.expect("status").into_inner().info;
    let info: serde_json::Value = serde_json::from_str(&info["info"]).expect("JSON");
    (info["resources"].clone(), info["overhead"].clone())
}

#[tokio::test]
async fn a_pod_s_status_begins_with_the_last_attempt() {
    let world = world!();
    if world.node.is_peer() {
        skip!("containerd 1.6 tells no containers with a pod's status");
    }
    let pod = world.node.pod("attempts");
    let pod_id = world.run_pod(&pod).await;
    for attempt in 0..6 {
        let spec = world.container("main").attempt(attempt).shell("exit 3");
        let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
        world.cri.wait_exited(&id).await;
    }
    let request = orlop_cri::v1::PodSandboxStatusRequest {
        pod_sandbox_id: pod_id.clone(),
        verbose: false,
    };
    let answer = world.cri.runtime.clone().pod_sandbox_status(request).await;
    let statuses = answer.expect("status").into_inner().containers_statuses;
    let attempts: Vec<u32> = statuses
        .iter()
        .map(|status| status.metadata.as_ref().expect("a name").attempt)
        .collect();
    assert_eq!(attempts, [5, 4, 3, 2, 1, 0]);
    world.finish().await;
}
