//! Things that go wrong on a node: a runtime that is killed, a log disk that is full.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orlop_cri_api::v1::ContainerState;
use orlop_testkit::Node;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::restart::script;
use crate::world::{ours, world};

#[tokio::test]
async fn a_runtime_killed_while_it_creates_leaves_nothing_behind() {
    let tools = tempfile::tempdir().expect("a directory");
    let delay = tools.path().join("delay");
    // While the file is there, the runtime dies so many seconds after its `create` began.
    let dying = script(
        tools.path(),
        "dying",
        &format!(
            "delay=$(cat {delay} 2>/dev/null)\n\
             case \"$delay $* \" in\n\
             ' '*) exec runc \"$@\";;\n\
             *' create '*) runc \"$@\" & sleep $delay; kill -9 $!; wait $!; kill -9 $$;;\n\
             *) exec runc \"$@\";;\n\
             esac",
            delay = delay.display(),
        ),
    );
    let world = world!(Node::orlop().runtime(&dying));
    for (attempt, seconds) in ["0", "0.01", "0.02", "0.03", "0.05", "0.08"]
        .iter()
        .enumerate()
    {
        std::fs::write(&delay, seconds).expect("write");
        let pod = world.node.pod(&format!("dying-{attempt}"));
        let pod_id = world.run_pod(&pod).await;
        let spec = world.container("main").command(&["sleep", "600"]);
        let id = world.cri.create(&pod_id, &pod, &spec).await;
        let id = id.expect("create");
        let error = world.cri.start(&id).await;
        let error = error.expect_err("its runtime is killed");
        assert!(error.message().contains("create"), "{error}");
        let status = world.cri.status(&id).await.expect("status");
        assert_eq!(status.state(), ContainerState::ContainerExited);
        assert_eq!(
            (status.exit_code, status.reason.as_str()),
            (128, "StartError")
        );
        std::fs::remove_file(&delay).expect("remove");
        // The pod is none the worse for it.
        let next = world.container("next").shell("exit 6");
        let id = world.cri.run(&pod_id, &pod, &next).await.expect("run");
        assert_eq!(world.cri.wait_exited(&id).await.exit_code, 6);
        world.cri.stop_pod(&pod_id).await.expect("stop");
        world.cri.remove_pod(&pod_id).await.expect("remove");
    }
    world.finish().await;
}

/// A small disk.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path, size: &str) -> Self {
        let options = std::ffi::CString::new(format!("size={size},mode=0755")).expect("options");
        mount(
            "tmpfs",
            at,
            "tmpfs",
            MountFlags::empty(),
            options.as_c_str(),
        )
        .expect("mount");
        Self(at.to_owned())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[tokio::test]
async fn a_full_log_disk_stops_no_container_and_no_daemon() {
    let world = ours!();
    let logs = world.node.scratch().subdir("small");
    let disk = Disk::mount(&logs, "128k");
    let pod = world
        .node
        .pod("chatty")
        .with(|config| config.log_directory = logs.to_string_lossy().into_owned());
    let pod_id = world.run_pod(&pod).await;
    let line = "x".repeat(100);
    let chatter = format!("i=0; while [ $i -lt 20000 ]; do echo {line}; i=$((i+1)); done; exit 3");
    let spec = world.container("main").shell(&chatter);
    let start = Instant::now();
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let status = world.cri.wait_exited(&id).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (3, "Error"));
    assert!(
        start.elapsed() < Duration::from_secs(25),
        "the disk held it up"
    );
    // The last line may be torn where the disk ended.
    let kept = std::fs::read_to_string(logs.join("main.log")).expect("read the log");
    let whole = kept.lines().filter(|kept| kept.ends_with(&line)).count();
    assert!(whole > 100 && whole < 20_000, "{whole} lines");

    // With room again, all is as ever.
    std::fs::remove_file(logs.join("main.log")).expect("remove the log");
    let spec = world.container("next").shell("echo ahoy; exit 4");
    let next = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    assert_eq!(world.cri.wait_exited(&next).await.exit_code, 4);
    let log = orlop_testkit::cri::read_log(&logs.join("next.log"));
    assert_eq!(log[0].content, b"ahoy");
    world.cri.stop_pod(&pod_id).await.expect("stop");
    world.cri.remove_pod(&pod_id).await.expect("remove");
    drop(disk);
    world.finish().await;
}
