//! Pods with users of their own: their root is nobody on the node.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{IdMapping, NamespaceMode, StatusRequest, UserNamespace};
use orlop_testkit::PodSpec;

use crate::world::World;

/// The id on the node of the pods' root.
const FIRST: u32 = 200_000;

/// A node whose runtime can do it.
macro_rules! world_with_users {
    () => {{
        match orlop_testkit::machine::runtime_with_users() {
            Ok(runtime) => {
                let world = $crate::world::world!(orlop_testkit::Node::orlop().runtime(&runtime));
                assert!(
                    $crate::users::is_able(&world).await,
                    "{runtime} can, the daemon does not know"
                );
                world
            }
            Err(reason) => orlop_testkit::skip!("{reason}"),
        }
    }};
}
pub(crate) use world_with_users;

/// Whether the daemon has found out that its runtime can do it.
pub(crate) async fn is_able(world: &World) -> bool {
    let mut runtime = world.cri.runtime();
    let status = runtime.status(StatusRequest::default()).await;
    let handlers = status.expect("status").into_inner().runtime_handlers;
    handlers.iter().any(|handler| {
        let features = handler.features.as_ref();
        features.is_some_and(|features| features.user_namespaces)
    })
}

/// The same pod, with users of its own.
pub(crate) fn with_users(pod: PodSpec) -> PodSpec {
    let map = vec![mapping()];
    pod.own_network().with(|config| {
        let linux = config.linux.get_or_insert_default();
        let security = linux.security_context.get_or_insert_default();
        let namespaces = security.namespace_options.get_or_insert_default();
        namespaces.userns_options = Some(UserNamespace {
            mode: NamespaceMode::Pod.into(),
            uids: map.clone(),
            gids: map,
        });
    })
}

fn mapping() -> IdMapping {
    IdMapping {
        host_id: FIRST,
        container_id: 0,
        length: 65536,
    }
}

/// The lines of a log, once there are five of them or it takes too long.
async fn five_lines(log: &Path) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let lines = orlop_testkit::cri::read_log(log).into_iter();
        let text = lines.map(|line| String::from_utf8_lossy(&line.content).trim().to_owned());
        let text: Vec<_> = text.collect();
        if text.len() >= 5 || Instant::now() > deadline {
            return text;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Who the node says that a container's processes belong to.
fn owners(container_id: &str) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("read /proc").flatten();
    let of_container = processes.filter(|process| {
        let cgroup = fs::read_to_string(process.path().join("cgroup")).unwrap_or_default();
        cgroup.contains(container_id)
    });
    let owner = |process: fs::DirEntry| Some(process.metadata().ok()?.uid());
    let mut owners: Vec<u32> = of_container.filter_map(owner).collect();
    owners.dedup();
    owners
}

#[tokio::test]
async fn the_root_of_a_pod_with_users_of_its_own_is_nobody_on_the_node() {
    let world = world_with_users!();
    let volume = world.node.scratch().path("volume");
    fs::create_dir(&volume).expect("make a volume");
    fs::write(volume.join("given"), "from the node").expect("fill the volume");
    let pod = with_users(world.node.pod("own"));
    let pod_id = world.run_pod(&pod).await;
    let script = "id -u; stat -c %u /bin/busybox; stat -c %u /volume/given; touch /mine /volume/made; \
        stat -c %u /mine; cat /proc/self/uid_map; sleep 600";
    let spec = world.container("main").shell(script);
    let spec = spec.mount(&volume, "/volume").with(|config| {
        config.mounts[0].uid_mappings = vec![mapping()];
        config.mounts[0].gid_mappings = vec![mapping()];
    });
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let log = pod.logs().join("main.log");
    let mut said = five_lines(&log).await;
    let map = said.pop().unwrap_or_default();
    assert_eq!(said, ["0", "0", "0", "0"], "{map}");
    assert_eq!(
        map.split_whitespace().collect::<Vec<_>>(),
        ["0", "200000", "65536"]
    );

    // On the node: the process is nobody's, what it put into the volume is root's.
    assert_eq!(owners(&id), [FIRST]);
    let made = fs::metadata(volume.join("made"))
        .expect("what it made")
        .uid();
    assert_eq!(made, 0, "a mapped mount gives files to the ids of the node");

    let null = fs::metadata("/dev/null")
        .expect("the node's null device")
        .uid();
    assert_eq!(
        null, 0,
        "crun gives standard streams to the container's user"
    );

    // Commands of later join the same namespace, also of a daemon that was started again.
    let mut world = world;
    world.restart().await;
    let got = world.cri.exec(&id, &["cat", "/proc/self/uid_map"]).await;
    let got = got.expect("exec");
    let joined = String::from_utf8_lossy(&got.stdout).into_owned();
    assert_eq!(
        joined.split_whitespace().collect::<Vec<_>>(),
        ["0", "200000", "65536"]
    );
    world.finish().await;
}

#[tokio::test]
async fn a_pod_with_users_of_its_own_can_live_in_the_nodes_network() {
    let world = world_with_users!();
    let mut runtime = world.cri.runtime();
    let status = runtime.status(StatusRequest::default()).await;
    let features = status.expect("status").into_inner().features;
    assert!(features.expect("features").user_namespaces_host_network);

    let pod = with_users(world.node.pod("hostnet")).with(|config| {
        let linux = config.linux.get_or_insert_default();
        let security = linux.security_context.get_or_insert_default();
        let namespaces = security.namespace_options.get_or_insert_default();
        namespaces.network = NamespaceMode::Node.into();
    });
    let pod_id = world.run_pod(&pod).await;
    let script = "id -u; cut -c1-60 /proc/self/uid_map | tr -s ' '; readlink /proc/self/ns/net; \
        test -d /sys/class/net/lo && echo sys; (: > /sys/kernel/mm/ksm/run) 2>/dev/null && echo writable; \
        ls /sys/fs/cgroup >/dev/null && echo cgroups; sleep 600";
    let spec = world.container("main").shell(script);
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let log = pod.logs().join("main.log");
    let lines = five_lines(&log).await;
    let node = fs::read_link("/proc/self/ns/net").expect("a namespace");
    let node = node.to_string_lossy().into_owned();
    assert_eq!(
        lines,
        ["0", "0 200000 65536", node.as_str(), "sys", "cgroups"]
    );
    assert_eq!(owners(&id), [FIRST]);
    assert_eq!(world.printed(&id, &["id", "-u"]).await, "0");
    world.finish().await;
}
