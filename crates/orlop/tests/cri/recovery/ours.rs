//! Runs on orlop alone.

use super::*;
use crate::world::ours;

#[tokio::test]
async fn commands_end_with_the_daemon_that_served_them() {
    // containerd 1.6 leaves them running.
    let mut world = ours!();
    let running = world.run_script("commanded", "sleep 600").await;
    let cri = world.node.cri().await;
    let id = running.id.clone();
    let lost = tokio::spawn(async move { cri.exec(&id, &["sleep", "4711"]).await });
    let lists = async |world: &World| {
        let ps = world.cri.exec(&running.id, &["ps", "-o", "args"]).await;
        String::from_utf8_lossy(&ps.expect("exec").stdout).contains("sleep 4711")
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !lists(&world).await {
        assert!(std::time::Instant::now() < deadline, "it does not start");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    go(&mut world, Going::Killed);
    lost.await.expect("no panic").expect_err("nobody answers");
    world.start_again().await;
    while lists(&world).await {
        assert!(
            std::time::Instant::now() < deadline,
            "it goes on for nobody"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let status = world.cri.status(&running.id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerRunning);
    world.finish().await;
}

#[tokio::test]
async fn a_trial_that_a_killed_daemon_was_making_is_ended() {
    skip_unless!(machine::has_program("runc"));
    let mut world = ours!();
    go(&mut world, Going::Killed);
    let state = world.node.state();
    let id = format!("orlop-trial-{}", world.node.id());
    let bundle = state.join(&id);
    for dir in ["proc", "dev", "sys"] {
        std::fs::create_dir_all(bundle.join("rootfs").join(dir)).unwrap();
    }
    std::fs::copy("/bin/busybox", bundle.join("rootfs/trial")).unwrap();
    let config = serde_json::json!({
        "ociVersion": "1.0.2",
        "process": {"args": ["/trial"], "cwd": "/", "user": {"uid": 0, "gid": 0}},
        "root": {"path": "rootfs"},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {
            "namespaces": [{"type": "pid"}, {"type": "mount"}],
            "cgroupsPath": format!("/{id}"),
        },
    });
    std::fs::write(bundle.join("config.json"), config.to_string()).unwrap();
    let pid_file = bundle.join("pid");
    let created = Command::new("runc")
        .arg("--root")
        .arg(state.join("runtimes/runc"))
        .args(["create", "--pid-file"])
        .arg(&pid_file)
        .arg("--bundle")
        .args([bundle.as_os_str(), id.as_ref()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    assert!(created.unwrap().success());
    let pid: u32 = std::fs::read_to_string(pid_file).unwrap().parse().unwrap();
    world.start_again().await;
    assert!(!bundle.exists());
    let left = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(left.is_empty() || left.contains(") Z "), "{left}");
    world.finish().await;
}

#[tokio::test]
async fn after_a_reboot_all_is_stopped_and_removable() {
    // containerd 1.6 keeps mounts of its own state directory; this test empties it.
    let mut world = ours!();
    let running = world.run_script("rebooted", "sleep 600").await;
    world.node.reboot();
    world.start_again().await;
    let pod = world.cri.pod_status(&running.pod_id).await.expect("status");
    assert_eq!(pod.state(), PodSandboxState::SandboxNotready);
    let status = world.cri.status(&running.id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerExited);
    assert_ne!(status.exit_code, 0);
    world.cri.known_image(&world.busybox).await;
    world.cri.remove_pod(&running.pod_id).await.expect("remove");
    world.finish().await;
}

#[tokio::test]
async fn a_dead_keeper_is_noticed_and_cleared_away() {
    // containerd has shims, not keepers.
    let world = ours!();
    let running = world.run_script("orphan", "sleep 600").await;
    let keepers = processes_named("orlop-keeper", &running.pod_id);
    assert_eq!(keepers.len(), 1, "one keeper per pod: {keepers:?}");
    let pid = rustix::process::Pid::from_raw(keepers[0]).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kill");
    let status = world.cri.wait_exited(&running.id).await;
    assert_ne!(status.exit_code, 0);
    let noticed = async {
        loop {
            let pod = world.cri.pod_status(&running.pod_id).await.expect("status");
            if pod.state() == PodSandboxState::SandboxNotready {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), noticed)
        .await
        .expect("the pod is not ready");
    world.finish().await;
}

#[tokio::test]
async fn a_limit_that_a_killed_daemon_had_raised_is_given_back() {
    let mut world = ours!();
    let running = world.run_script("limited", "sleep 600").await;
    let parent = running.pod.config().linux.clone().expect("a cgroup");
    let parent = parent.cgroup_parent.trim_start_matches('/').to_owned();
    let (dir, file, little, raised) = if machine::is_cgroup_v2() {
        let (little, raised) = ("1000 100000", "100001 100000");
        ("/sys/fs/cgroup", "cpu.max", little, raised)
    } else {
        ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "1000", "100001")
    };
    let dir = std::path::Path::new(dir).join(parent);
    world.node.kill9();
    let (flags, name) = (rustix::fs::XattrFlags::empty(), "trusted.orlop.cpu-limit");
    rustix::fs::setxattr(&dir, name, little.as_bytes(), flags).expect("keep");
    std::fs::write(dir.join(file), raised).expect("raise");
    world.start_again().await;
    let limit = || std::fs::read_to_string(dir.join(file)).expect("read");
    orlop_testkit::wait_until!(
        Duration::from_secs(10) * machine::patience(),
        limit().trim() == little,
        "it is {}",
        limit()
    );
    world.cri.stop_pod(&running.pod_id).await.expect("stop");
    world.finish().await;
}
