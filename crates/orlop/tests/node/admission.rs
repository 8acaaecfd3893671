//! Pods that there is no room for.

use orlop_testkit::ImageBuilder;

use crate::world::{SOON, world};

#[tokio::test(flavor = "multi_thread")]
async fn who_has_no_room_is_shown_with_the_reason_and_comes_in_later() {
    let world = world!();
    let port = "ports: [{containerPort: 18980, hostPort: 18980}]";
    world.write("a.yaml", &world.sleeper("first", "hostNetwork: true", port));
    world.write(
        "b.yaml",
        &world.sleeper("second", "hostNetwork: true", port),
    );
    let large = "resources: {requests: {cpu: '1000'}}";
    world.write(
        "c.yaml",
        &world.sleeper("large", "hostNetwork: true", large),
    );
    let elsewhere = world.sleeper("elsewhere", "nodeSelector: {zone: far}", "");
    world.write("d.yaml", &elsewhere);
    let mut agent = world.agent(&["--node-labels=zone=near"]);
    agent.ready("first-n1").await;
    for (name, reason, word) in [
        (
            "second-n1",
            "NodePorts",
            "18980/TCP is already used by pod default/first-n1",
        ),
        ("large-n1", "OutOfcpu", "requested: 1000000"),
        ("elsewhere-n1", "NodeAffinity", "zone=far"),
    ] {
        let pod = agent
            .until(name, "rejected", |pod| pod["status"]["phase"] == "Failed")
            .await;
        assert_eq!(pod["status"]["reason"], reason, "{}", pod["status"]);
        let message = pod["status"]["message"].as_str().unwrap();
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(world.cri.containers().await.unwrap().len(), 1);

    world.remove("a.yaml");
    agent.ready("second-n1").await;
    agent.finish(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_pods_than_the_node_takes() {
    let world = world!();
    for name in ["a", "b", "c"] {
        let text = world.sleeper(name, "hostNetwork: true", "");
        world.write(&format!("{name}.yaml"), &text);
    }
    let mut agent = world.agent(&["--max-pods=2"]);
    agent.ready("a-n1").await;
    agent.ready("b-n1").await;
    let last = agent
        .until("c-n1", "rejected", |pod| pod["status"]["phase"] == "Failed")
        .await;
    assert_eq!(last["status"]["reason"], "OutOfpods");
    agent.finish(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_runs_low_ends_a_pod_and_says_why() {
    let world = world!();
    world.write("a.yaml", &world.sleeper("victim", "hostNetwork: true", ""));
    // No machine has that much memory.
    let mut agent = world.agent(&[
        "--eviction-soft=memory.available<8192Pi",
        "--eviction-soft-grace-period=memory.available=4s",
    ]);
    // It may run for a while, or be turned away at once, as a pod without promises is.
    let pod = agent
        .until("victim-n1", "evicted", |pod| {
            pod["status"]["reason"] == "Evicted"
        })
        .await;
    assert_eq!(pod["status"]["phase"], "Failed");
    let status = agent.json("/orlop/v1/status");
    let conditions = status["conditions"].as_array().unwrap();
    let pressure = conditions.iter().find(|it| it["type"] == "MemoryPressure");
    assert_eq!(pressure.unwrap()["status"], "True");
    agent.finish(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_takes_unused_images_first_and_then_a_pod() {
    let world = world!();
    let image = ImageBuilder::busybox().marked("unused").build();
    let unused = world.registry.push(&image, "unused:1").await;
    world.cri.pull(&unused).await.unwrap();
    world.write("a.yaml", &world.sleeper("victim", "hostNetwork: true", ""));
    let mut agent = world.agent(&[
        // No disk is that large.
        "--eviction-soft=imagefs.available<8192Pi,nodefs.available<8192Pi",
        "--eviction-soft-grace-period=imagefs.available=5s,nodefs.available=5s",
    ]);
    let pod = agent
        .until("victim-n1", "evicted", |pod| {
            pod["status"]["reason"] == "Evicted"
        })
        .await;
    assert_eq!(pod["status"]["phase"], "Failed");
    let status = agent.json("/orlop/v1/status");
    let conditions = status["conditions"].as_array().unwrap();
    let pressure = conditions.iter().find(|it| it["type"] == "DiskPressure");
    assert_eq!(pressure.unwrap()["status"], "True");
    orlop_testkit::wait_until!(
        SOON,
        world.cri.image(&unused).await.unwrap().is_none(),
        "an unused image stays on a full disk"
    );
    agent.finish(&world).await;
    world.finish().await;
}
