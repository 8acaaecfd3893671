//! What can't be undone at once is told, and undone by the next try.

use std::path::{Path, PathBuf};

use orlop_cri_api::v1::PodSandboxState;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::world::ours;

/// A mount in the way of removing a directory.
struct InTheWay(PathBuf);

impl InTheWay {
    fn of(dir: &Path) -> Self {
        let point = dir.join("in-the-way");
        std::fs::create_dir(&point).expect("make a directory");
        mount("in-the-way", &point, "tmpfs", MountFlags::empty(), None).expect("mount");
        Self(point)
    }
}

impl Drop for InTheWay {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[tokio::test]
async fn a_pod_that_could_be_stopped_only_in_part_is_not_called_ready() {
    let world = ours!();
    let running = world.run_script("halved", "sleep 600").await;
    let shm = world.node.state().join("private/shm").join(&running.pod_id);
    let in_the_way = InTheWay::of(&shm);
    let told = world.cri.stop_pod(&running.pod_id).await;
    let told = told.expect_err("there is a mount in the way");
    assert!(told.message().contains(&*shm.to_string_lossy()), "{told}");
    // A kubelet that found it ready would start containers in it for ever.
    let status = world.cri.pod_status(&running.pod_id).await.expect("status");
    assert_eq!(status.state(), PodSandboxState::SandboxNotready);
    drop(in_the_way);
    world.cri.stop_pod(&running.pod_id).await.expect("stop");
    world.cri.remove_pod(&running.pod_id).await.expect("remove");
    assert!(!shm.exists());
    world.finish().await;
}
