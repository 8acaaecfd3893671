//! Pods: their states, their names, what their containers share.

use std::time::Duration;

use orlop_cri_api::v1::{
    ListPodSandboxRequest, NamespaceMode, PodSandboxFilter, PodSandboxState, PodSandboxStateValue,
};
use orlop_testkit::skip;
use tokio::io::AsyncReadExt;
use tonic::Code;

use crate::networks::in_network;
use crate::world::{until, world};

mod ours;

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
async fn removing_a_running_pod_takes_its_containers_along() {
    let world = world!();
    let running = world.run_script("forced", "sleep 600").await;
    world.cri.remove_pod(&running.pod_id).await.expect("remove");
    let error = world.cri.status(&running.id).await;
    let error = error.expect_err("the container is gone");
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
        let mut client = world.cri.runtime();
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
    let ps = world.cri.exec(&second, &["ps", "-o", "args"]).await;
    let ps = ps.expect("exec");
    let seen = String::from_utf8_lossy(&ps.stdout).into_owned();
    assert!(
        seen.contains("sleep 12345"),
        "the other container is not seen:\n{seen}"
    );

    // In a pod of the usual kind everyone is alone, and process 1.
    let alone = world.run_script("alone", "echo $$; sleep 600").await;
    let ps = world.cri.exec(&alone.id, &["ps", "-o", "args"]).await;
    let ps = ps.expect("exec");
    let seen = String::from_utf8_lossy(&ps.stdout).into_owned();
    assert!(!seen.contains("12345"), "another pod is seen:\n{seen}");
    assert_eq!(until(&world, &alone, "1").await.trim(), "1");
    world.finish().await;
}

/// A pod's resources and overhead, as its verbose status tells them.
async fn resources_told(
    world: &crate::world::World,
    pod_id: &str,
) -> (serde_json::Value, serde_json::Value) {
    let request = orlop_cri_api::v1::PodSandboxStatusRequest {
        pod_sandbox_id: pod_id.to_owned(),
        verbose: true,
    };
    let answer = world.cri.runtime().pod_sandbox_status(request).await;
    let info = answer.expect("status").into_inner().info;
    let info: serde_json::Value = serde_json::from_str(&info["info"]).expect("JSON");
    (info["resources"].clone(), info["overhead"].clone())
}

/// The network is attached while the keeper starts, but not where that has to set something first.
#[tokio::test]
async fn an_interface_has_what_its_pod_sets_for_new_ones() {
    let world = world!();
    let asking = world.node.pod("sysctls").own_network().with(|config| {
        let linux = config.linux.get_or_insert_default();
        linux.sysctls = [("net.ipv4.conf.default.arp_notify", "1")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
    });
    let id = world.run_pod(&asking).await;
    let told = "/proc/sys/net/ipv4/conf/eth0/arp_notify";
    let told = if world.node.is_peer() {
        let spec = world.container("main").command(&["sleep", "600"]);
        let container = world.cri.run(&id, &asking, &spec).await.expect("run it");
        world.printed(&container, &["cat", told]).await
    } else {
        // A runtime with a kernel of its own shows another inside.
        in_network(&world.node.state().join("netns").join(&id), &["cat", told])
    };
    assert_eq!(told.trim(), "1");
    world.finish().await;
}

#[tokio::test]
async fn a_name_is_free_again_after_removal() {
    let world = world!();
    let pod = world.node.pod("again");
    let first = world.run_pod(&pod).await;
    world.cri.stop_pod(&first).await.expect("stop");
    world.cri.remove_pod(&first).await.expect("remove");
    let second = world.run_pod(&pod).await;
    assert_ne!(first, second);
    world.finish().await;
}
