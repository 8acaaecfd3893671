//! What the engine is asked, and how often.

use std::time::Duration;

use orlop_cri_api::v1::ListContainersRequest;
use orlop_testkit::docker::EngineTap;
use orlop_testkit::process::memory;
use orlop_testkit::{ContainerSpec, DockerEngine};

use crate::world::{BUSYBOX, World};

async fn tapped() -> (World, EngineTap) {
    let engine = DockerEngine::start();
    let tap = EngineTap::on(&engine.socket());
    let world = World::with(engine, tap.socket(), "").await;
    (world, tap)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_containers_are_listed_with_one_call() {
    orlop_testkit::skip_unless!(orlop_testkit::docker::can_run());
    let (world, tap) = tapped().await;
    let pod = world.node.pod("many");
    let pod_id = world.cri.run_pod(&pod).await.unwrap();
    for attempt in 0..200 {
        let spec = ContainerSpec::new("one", BUSYBOX).attempt(attempt);
        world.cri.create(&pod_id, &pod, &spec).await.unwrap();
    }
    tap.take();
    let mut runtime = world.cri.runtime();
    let listed = runtime.list_containers(ListContainersRequest::default());
    let listed = listed.await.unwrap().into_inner().containers;
    assert_eq!(listed.len(), 200);
    let asked = tap.take();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains("/containers/json?"), "{asked:?}");
    // Quicker than the kit, one by one.
    let ids = world
        .engine
        .docker(&["ps", "-aq", "--filter=name=k8s_one_"]);
    let mut remove = vec!["rm", "-f"];
    remove.extend(ids.split_whitespace());
    world.engine.docker(&remove);
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_brought_up_with_few_calls() {
    orlop_testkit::skip_unless!(orlop_testkit::docker::can_run());
    let (world, tap) = tapped().await;
    // The first one looks for the pause image, too.
    world.run_script("first", "sleep 1000").await;
    // Its log is read on when all else is done.
    tokio::time::sleep(Duration::from_secs(1)).await;
    tap.take();
    let (_, pod_id, id) = world.run_script("second", "sleep 1000").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked: Vec<String> = tap
        .take()
        .into_iter()
        .map(|line| {
            let line = line.split('?').next().unwrap();
            let (method, path) = line.split_once(' ').unwrap();
            let path = path.splitn(3, '/').nth(2).unwrap();
            format!("{method} {path}")
        })
        .collect();
    assert_eq!(
        asked,
        [
            "POST containers/create".to_owned(),
            format!("POST containers/{pod_id}/start"),
            // Its process, for the network, and where its resolv.conf is.
            format!("GET containers/{pod_id}/json"),
            "POST containers/create".to_owned(),
            format!("POST containers/{id}/start"),
            format!("GET containers/{id}/logs"),
        ]
    );
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_daemon_is_small_and_asks_nothing() {
    orlop_testkit::skip_unless!(orlop_testkit::docker::can_run());
    let (world, tap) = tapped().await;
    for name in ["a", "b", "c"] {
        world.run_script(name, "sleep 1000").await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    tap.take();
    let used = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", world.node.pid())).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let fields: Vec<u64> = fields
            .split_whitespace()
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        fields[11] + fields[12]
    };
    let before = used();
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(
        tap.take(),
        Vec::<String>::new(),
        "nobody asked for anything"
    );
    let ticks = used() - before;
    assert!(ticks <= 2, "{ticks} ticks of the processor in 15 s");
    let kib = memory(world.node.pid(), "RssAnon:");
    assert!(kib < 20 << 10, "{kib} KiB of its own");
    if orlop_testkit::node::is_release() {
        let kib = memory(world.node.pid(), "VmRSS:");
        assert!(kib < 20 << 10, "{kib} KiB are resident");
    }
    world.node.finish().await;
}
