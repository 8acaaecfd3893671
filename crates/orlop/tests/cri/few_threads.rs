//! A node where no thread and no process more may be started.

use std::path::PathBuf;
use std::time::Duration;

use orlop_cri_api::v1::PodSandboxState;
use orlop_testkit::machine::is_cgroup_v2;
use orlop_testkit::skip_unless;
use tonic::Code;

use crate::world::ours;

/// After this the daemon has given back threads that it can do without.
const IDLE: Duration = Duration::from_millis(2500);

#[tokio::test]
async fn a_pod_for_which_no_thread_can_be_started_fails_with_the_way_out_and_leaves_nothing() {
    skip_unless!(can_limit());
    let world = ours!();
    let before = world.run_script("before", "sleep 600").await;
    let limit = Limit::over(world.node.pid(), world.node.id());
    let others = || async { world.cri.pods().await.expect("list") };
    // As far as it gets with none, with one more, and so on.
    for room in 0..8 {
        tokio::time::sleep(IDLE).await;
        let pod = world.node.pod(&format!("late-{room}")).own_network();
        limit.set(&(limit.now() + room).to_string());
        let outcome = world.cri.run_pod(&pod).await;
        println!("room for {room}: {outcome:?}");
        let left = others().await;
        limit.set("max");
        match outcome {
            Err(error) => {
                assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
                assert!(error.message().contains("pids.max"), "{error}");
                // What needs a thread to be undone waits for the client, as stopped.
                for half in left.iter().filter(|id| **id != before.pod_id) {
                    let status = world.cri.pod_status(half).await.expect("status");
                    assert_eq!(status.state(), PodSandboxState::SandboxNotready, "{half}");
                    assert!(room > 0, "nothing was begun");
                    world.cri.stop_pod(half).await.expect("stop");
                    world.cri.remove_pod(half).await.expect("remove");
                }
                assert_eq!(others().await, [before.pod_id.as_str()], "room for {room}");
                for records in [world.node.root(), world.node.state()] {
                    let names = std::fs::read_dir(records.join("pods")).expect("pods");
                    assert_eq!(names.count(), 1, "room for {room}, {}", records.display());
                }
            }
            Ok(id) => {
                assert!(room > 0, "a pod without a process");
                world.cri.stop_pod(&id).await.expect("stop");
                world.cri.remove_pod(&id).await.expect("remove");
            }
        }
        let again = world.run_pod(&pod).await;
        world.cri.stop_pod(&again).await.expect("stop");
        world.cri.remove_pod(&again).await.expect("remove");
    }
    // What needs no thread of its own goes on all the while.
    limit.set("0");
    world.cri.version().await.expect("it lives");
    assert_eq!(others().await, [before.pod_id.as_str()]);
    let stopped = world.cri.stop_pod(&before.pod_id).await;
    println!("stopped without a thread: {stopped:?}");
    limit.set("max");
    world.cri.stop_pod(&before.pod_id).await.expect("stop");
    world.cri.remove_pod(&before.pod_id).await.expect("remove");
    let log = world.node.log();
    assert!(!log.contains("panicked"), "{log}");
    drop(limit);
    world.finish().await;
}

fn above() -> PathBuf {
    if is_cgroup_v2() {
        "/sys/fs/cgroup".into()
    } else {
        "/sys/fs/cgroup/pids".into()
    }
}

fn can_limit() -> Result<(), String> {
    let above = above();
    let given = std::fs::read_to_string(above.join("cgroup.subtree_control"));
    let is_given = given.map_or(above.is_dir(), |given| given.contains("pids"));
    is_given
        .then_some(())
        .ok_or_else(|| format!("{} limits no processes", above.display()))
}

/// A cgroup of a daemon's own, which says how many threads and processes it may have. Its processes go back to
/// where it was made with this.
struct Limit {
    above: PathBuf,
    own: PathBuf,
}

impl Limit {
    fn over(pid: u32, name: &str) -> Self {
        let above = above();
        let own = above.join(format!("{name}-few"));
        std::fs::create_dir(&own).expect("make a cgroup");
        let limit = Self { above, own };
        std::fs::write(limit.own.join("cgroup.procs"), pid.to_string()).expect("move the daemon");
        limit
    }

    fn set(&self, most: &str) {
        std::fs::write(self.own.join("pids.max"), most).expect("limit");
    }

    /// How many there are.
    fn now(&self) -> u64 {
        let text = std::fs::read_to_string(self.own.join("pids.current")).expect("pids.current");
        text.trim().parse().expect("a number")
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let inside = std::fs::read_to_string(self.own.join("cgroup.procs")).unwrap_or_default();
        for pid in inside.lines() {
            let _ = std::fs::write(self.above.join("cgroup.procs"), pid);
        }
        let _ = std::fs::remove_dir(&self.own);
    }
}
