//! Runs on orlop alone.

use super::*;
use orlop_testkit::assert_contains;

#[tokio::test]
async fn a_runtime_that_puts_mounts_in_their_places_itself_needs_no_copy_of_the_nodes() {
    let dir = tempfile::tempdir().expect("a directory");
    let seen = dir.path().join("seen");
    let look = format!("readlink /proc/self/ns/mnt >{}", seen.display());
    let looks = before_create(dir.path(), &look);
    let world = world!(Node::orlop().runtime(&looks));
    let nodes = format!("/proc/{}/ns/mnt", world.node.pid());
    let nodes = std::fs::read_link(nodes).expect("the daemon's mounts");
    let plain = world.node.pod("plain");
    let pods = [plain, with_users(world.node.pod("users"))];
    let possible = 1 + usize::from(is_able(&world).await);
    for (index, pod) in pods.into_iter().take(possible).enumerate() {
        let pod_id = world.run_pod(&pod).await;
        let spec = world.container("main").command(&["sleep", "600"]);
        let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
        let there = std::fs::read_to_string(&seen).expect("what was seen");
        // Who has other users has them put in their places.
        assert_eq!(Path::new(there.trim_end()) == nodes, index == 0);
        let both = world.cri.exec(&id, &["touch", "/dev/shm/x", "/made"]).await;
        assert_eq!(both.expect("exec").exit_code, 0);
    }
    world.finish().await;
}

#[tokio::test]
async fn neither_keeper_nor_container_has_a_copy_of_the_nodes_mounts() {
    let dir = tempfile::tempdir().expect("a directory");
    let (own, log) = (orlop_testkit::node::run_binary(), dir.path().join("log"));
    // After `--root DIR --log FILE`, of which the file is removed.
    let text = format!(
        "case \" $* \" in *' create '*) {own} --debug \"$@\"; code=$?; cp \"$4\" {log}; exit $code;; esac; \
         exec {own} \"$@\"",
        own = own.display(),
        log = log.display(),
    );
    let tells = script(dir.path(), "tells", &text);
    let world = world!(Node::orlop().runtime(&tells));
    let running = world.run_script("main", "sleep 600").await;
    let told = std::fs::read_to_string(&log).expect("what it told");
    assert_contains!(told, "mount namespace copied from a prepared one");
    // What it finds by its root is in none of its own.
    let keeper = keeper_of(&running.pod_id).as_raw_nonzero();
    let mounts = std::fs::read_to_string(format!("/proc/{keeper}/mountinfo"));
    assert_eq!(mounts.expect("its mounts"), "");
    world.finish().await;
}
