//! Runs on orlop alone.

use super::*;
use crate::world::ours;

#[tokio::test]
async fn stopping_what_never_was_is_no_error() {
    // containerd 1.6 answers NotFound, against the interface.
    let world = ours!();
    let unknown = "0".repeat(64);
    world.cri.stop_pod(&unknown).await.expect("stop a pod");
    world.cri.remove_pod(&unknown).await.expect("remove a pod");
    world.cri.stop(&unknown, 0).await.expect("stop a container");
    let done = world.cri.remove(&unknown).await;
    done.expect("remove a container");
    world.finish().await;
}

#[tokio::test]
async fn a_pod_s_resources_are_updated_kept_and_reported() {
    // containerd 1.6 does not know the call.
    let mut world = ours!();
    // No kubelet has made a cgroup for it.
    let pod = world.node.pod("resized").with(|config| {
        config.linux.get_or_insert_default().cgroup_parent = String::new();
    });
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").shell("sleep 600");
    world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let before = resources_told(&world, &pod_id).await;
    assert!(before.0.is_null() && before.1.is_null(), "{before:?}");
    let request = |memory, overhead| orlop_cri_api::v1::UpdatePodSandboxResourcesRequest {
        pod_sandbox_id: pod_id.clone(),
        resources: Some(orlop_cri_api::v1::LinuxContainerResources {
            memory_limit_in_bytes: memory,
            cpu_shares: 256,
            ..Default::default()
        }),
        overhead: Some(orlop_cri_api::v1::LinuxContainerResources {
            memory_limit_in_bytes: overhead,
            ..Default::default()
        }),
    };
    let mut runtime = world.cri.runtime();
    runtime
        .update_pod_sandbox_resources(request(64 << 20, 1 << 20))
        .await
        .expect("update");
    // systemd's pods without a cgroup of their client's have none of their own.
    let driver = runtime.runtime_config(orlop_cri_api::v1::RuntimeConfigRequest {});
    let driver = driver.await.expect("configuration").into_inner().linux;
    let own_cgroup =
        driver.expect("Linux").cgroup_driver() == orlop_cri_api::v1::CgroupDriver::Cgroupfs;
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
    world.crash().await;
    let mut runtime = world.cri.runtime();
    let error = runtime.update_pod_sandbox_resources(request(-7, 0)).await;
    let error = error.expect_err("a negative limit");
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    assert_eq!(resources_told(&world, &pod_id).await, after);
    in_force(65 << 20);
    world.finish().await;
}

#[tokio::test]
async fn a_pod_s_status_begins_with_the_last_attempt() {
    // containerd 1.6 tells no containers with a pod's status.
    let world = ours!();
    let pod = world.node.pod("attempts");
    let pod_id = world.run_pod(&pod).await;
    for attempt in 0..6 {
        let spec = world.container("main").attempt(attempt).shell("exit 3");
        let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
        world.cri.wait_exited(&id).await;
    }
    let request = orlop_cri_api::v1::PodSandboxStatusRequest {
        pod_sandbox_id: pod_id.clone(),
        verbose: false,
    };
    let answer = world.cri.runtime().pod_sandbox_status(request).await;
    let statuses = answer.expect("status").into_inner().containers_statuses;
    let attempts: Vec<u32> = statuses
        .iter()
        .map(|status| status.metadata.as_ref().expect("a name").attempt)
        .collect();
    assert_eq!(attempts, [5, 4, 3, 2, 1, 0]);
    world.finish().await;
}
