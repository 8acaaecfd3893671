//! The daemon goes and comes back; pods don't notice, and nothing is forgotten.

use std::process::{Command, Stdio};
use std::time::Duration;

use orlop_cri::v1::{ContainerState, PodSandboxState};
use orlop_testkit::{machine, skip};

use crate::world::{World, world};

/// How the daemon goes.
#[derive(Debug, Clone, Copy)]
enum Going {
    Asked,
    Killed,
}

#[tokio::test]
async fn containers_live_through_a_restart() {
    let world = world!();
    live_through(world, Going::Asked).await;
}

#[tokio::test]
async fn containers_live_through_the_daemons_death() {
    let world = world!();
    live_through(world, Going::Killed).await;
}

async fn live_through(mut world: World, how: Going) {
    let script = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.02; done";
    let running = world.run_script("ticking", script).await;
    let before = world.cri.status(&running.id).await.expect("status");
    go(&mut world, how);
    let left_at = running.stdout().lines().count();
    // The log goes on while nobody is there.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let meanwhile = running.stdout().lines().count();
    // containerd 1.6 copies the output itself, so there it has to wait.
    assert!(
        meanwhile > left_at || world.node.is_peer(),
        "the log stood still at {left_at} lines"
    );
    come_back(&mut world).await;

    let after = world.cri.status(&running.id).await.expect("status");
    assert_eq!(after.state(), ContainerState::ContainerRunning);
    assert_eq!(after.started_at, before.started_at);
    let pod = world.cri.pod_status(&running.pod_id).await.expect("status");
    assert_eq!(pod.state(), PodSandboxState::SandboxReady);
    let output = world
        .cri
        .exec(&running.id, &["echo", "ahoy"])
        .await
        .expect("exec");
    assert_eq!(output.stdout, b"ahoy\n");
    let numbers: Vec<usize> = running
        .stdout()
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect();
    assert!(
        numbers.iter().copied().eq(0..numbers.len()),
        "lines were lost: {numbers:?}"
    );
    world.cri.stop(&running.id, 0).await.expect("stop");
    assert_eq!(world.cri.wait_exited(&running.id).await.exit_code, 137);
    world.finish().await;
}

#[tokio::test]
async fn commands_end_with_the_daemon_that_served_them() {
    let mut world = world!();
    if world.node.is_peer() {
        skip!("containerd 1.6 leaves them running");
    }
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
    come_back(&mut world).await;
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
    let mut world = world!();
    if world.node.is_peer() || machine::has_program("runc").is_err() {
        skip!("the trial is made by runc, and ended by orlop");
    }
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
    come_back(&mut world).await;
    assert!(!bundle.exists());
    let left = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(left.is_empty() || left.contains(") Z "), "{left}");
    world.finish().await;
}

#[tokio::test]
async fn an_exit_that_nobody_saw_is_known() {
    let mut world = world!();
    let gate = world.node.scratch().subdir("gate");
    let script = "while [ ! -e /gate/open ]; do sleep 0.02; done; exit 9";
    let spec = world.container("main").shell(script).mount(&gate, "/gate");
    let running = world.run_container("unseen", &spec).await;
    go(&mut world, Going::Killed);
    std::fs::write(gate.join("open"), "").expect("write");
    tokio::time::sleep(Duration::from_millis(300)).await;
    come_back(&mut world).await;
    let status = world.cri.wait_exited(&running.id).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (9, "Error"));
    world.finish().await;
}

#[tokio::test]
async fn images_and_names_are_still_there() {
    let mut world = world!();
    let running = world.run_script("kept", "exit 4").await;
    world.cri.wait_exited(&running.id).await;
    go(&mut world, Going::Killed);
    come_back(&mut world).await;
    world
        .cri
        .image(&world.busybox)
        .await
        .expect("status")
        .expect("the image is still there");
    assert_eq!(
        world
            .cri
            .status(&running.id)
            .await
            .expect("status")
            .exit_code,
        4
    );
    let more = world.run_script("more", "exit 5").await;
    assert_eq!(world.cri.wait_exited(&more.id).await.exit_code, 5);
    world.finish().await;
}

#[tokio::test]
async fn after_a_reboot_all_is_stopped_and_removable() {
    let mut world = world!();
    if world.node.is_peer() {
        skip!("containerd 1.6 keeps mounts of its own state directory; this test empties it");
    }
    let running = world.run_script("rebooted", "sleep 600").await;
    world.node.reboot();
    come_back(&mut world).await;
    let pod = world.cri.pod_status(&running.pod_id).await.expect("status");
    assert_eq!(pod.state(), PodSandboxState::SandboxNotready);
    let status = world.cri.status(&running.id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerExited);
    assert_ne!(status.exit_code, 0);
    world
        .cri
        .image(&world.busybox)
        .await
        .expect("status")
        .expect("the image is still there");
    world.cri.remove_pod(&running.pod_id).await.expect("remove");
    world.finish().await;
}

#[tokio::test]
async fn a_dead_keeper_is_noticed_and_cleared_away() {
    let world = world!();
    if world.node.is_peer() {
        skip!("containerd has shims, not keepers");
    }
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
    let mut world = world!();
    if world.node.is_peer() {
        skip!("nobody else raises it in this way");
    }
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
    come_back(&mut world).await;
    let limit = || std::fs::read_to_string(dir.join(file)).expect("read");
    let deadline = std::time::Instant::now() + Duration::from_secs(10) * machine::patience();
    while limit().trim() != little {
        assert!(std::time::Instant::now() < deadline, "it is {}", limit());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.cri.stop_pod(&running.pod_id).await.expect("stop");
    world.finish().await;
}

fn go(world: &mut World, how: Going) {
    match how {
        Going::Asked => drop(world.node.stop()),
        Going::Killed => world.node.kill9(),
    }
}

async fn come_back(world: &mut World) {
    world.node.start_again().await;
    world.cri = world.node.cri().await;
}

/// The processes of that name with `word` on their command line or in their directory.
fn processes_named(name: &str, word: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("read /proc").flatten() {
        let dir = entry.path();
        let Some(pid) = dir.file_name().and_then(|name| name.to_str()?.parse().ok()) else {
            continue;
        };
        let comm = std::fs::read_to_string(dir.join("comm")).unwrap_or_default();
        let command = std::fs::read(dir.join("cmdline")).unwrap_or_default();
        let cwd = std::fs::read_link(dir.join("cwd")).unwrap_or_default();
        let about = String::from_utf8_lossy(&command).contains(word)
            || cwd.to_string_lossy().contains(word);
        if comm.trim() == name && about {
            found.push(pid);
        }
    }
    found
}
