//! Containers are written out, and go on from what was written.
//!
//! With the CRIU of the machine, where that works on its kernel.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use orlop_cri_api::v1::{
    CheckpointContainerRequest, CheckpointContainerResponse, CheckpointPodRequest,
    CheckpointPodResponse, ContainerState, ImageSpec, RestorePodRequest, RestorePodResponse,
};
use orlop_testkit::machine::criu_works;
use orlop_testkit::{
    Compression, ContainerSpec, ImageBuilder, Node, PodSpec, assert_contains, skip_unless,
};
use tonic::{Code, Status};

use crate::world::{Running, World, ours, world};

/// Counts in memory, on disk and in its log.
const COUNTING: &str = "mkdir /data; rm /etc/group; i=0; \
    while :; do i=$((i+1)); echo $i >> /data/n; echo $i; sleep 0.02; done";

/// Prints the last number in its file, which is never empty while it counts.
const LAST: &[&str] = &["tail", "-n", "1", "/data/n"];

macro_rules! criu_world {
    () => {{ criu_world!(Node::orlop()) }};
    ($node:expr) => {{
        skip_unless!(criu_works());
        world!($node)
    }};
}

impl World {
    async fn write_out(&self, id: &str, location: &Path) -> Result<(), Status> {
        let request = CheckpointContainerRequest {
            container_id: id.to_owned(),
            location: location.to_str().unwrap().to_owned(),
            timeout: 0,
        };
        let path = "/runtime.v1.RuntimeService/CheckpointContainer";
        let answer = self
            .cri
            .call::<_, CheckpointContainerResponse>(path, request);
        answer.await.map(drop)
    }

    async fn write_out_pod(
        &self,
        pod_id: &str,
        ids: &[&str],
        to: &Path,
        option: Option<(&str, &str)>,
    ) -> Result<(), Status> {
        let request = CheckpointPodRequest {
            pod_sandbox_id: pod_id.to_owned(),
            output_path: to.to_str().unwrap().to_owned(),
            container_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            options: option
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        };
        let path = "/runtime.v1.RuntimeService/CheckpointPod";
        let answer = self.cri.call::<_, CheckpointPodResponse>(path, request);
        answer.await.map(drop)
    }

    async fn restore_pod(
        &self,
        from: &Path,
        pod: &PodSpec,
        specs: &[&ContainerSpec],
    ) -> Result<RestorePodResponse, Status> {
        let request = RestorePodRequest {
            checkpoint_path: from.to_str().unwrap().to_owned(),
            config: Some(pod.config()),
            container_configs: specs.iter().map(|spec| spec.config(pod)).collect(),
            ..Default::default()
        };
        let path = "/runtime.v1.RuntimeService/RestorePod";
        self.cri.call(path, request).await
    }

    /// A container that goes on from an archive.
    fn going_on(&self, archive: &Path) -> ContainerSpec {
        let image = archive.to_str().unwrap().to_owned();
        self.container("main").with(|config| {
            config.image = Some(ImageSpec {
                image,
                ..Default::default()
            });
        })
    }

    fn place(&self, name: &str) -> PathBuf {
        self.node.scratch().path(name)
    }
}

fn numbers(running: &Running) -> Vec<u64> {
    let lines = running.stdout();
    lines.lines().map(|line| line.parse().unwrap()).collect()
}

/// Waits until it counts beyond a number.
async fn counts_beyond(running: &Running, number: u64) {
    for _ in 0..500 {
        if numbers(running).last().is_some_and(|last| *last > number) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!(
        "it stands still at {:?}, not beyond {number}",
        numbers(running).last()
    );
}

fn names_in(archive: &Path) -> Vec<String> {
    let mut archive = tar::Archive::new(std::fs::File::open(archive).unwrap());
    let entries = archive.entries().unwrap();
    entries
        .map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned())
        .collect()
}

async fn printed(world: &World, id: &str, words: &[&str]) -> String {
    let output = world.cri.exec(id, words).await.unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[tokio::test]
async fn a_container_is_written_out_and_goes_on_in_another_pod() {
    let mut world = criu_world!();
    let first = world.run_script("first", COUNTING).await;
    counts_beyond(&first, 5).await;
    let archive = world.place("first.tar");
    world.write_out(&first.id, &archive).await.unwrap();
    let written_at = *numbers(&first).last().unwrap();
    // It runs on, as if nothing had been.
    counts_beyond(&first, written_at).await;
    let names = names_in(&archive);
    for name in [
        "config.dump",
        "spec.dump",
        "status.dump",
        "rootfs-diff.tar",
        "container.log",
        "checkpoint/inventory.img",
    ] {
        assert!(
            names.iter().any(|it| it == name),
            "{name} is not in {names:?}"
        );
    }
    let mode = std::fs::metadata(&archive).unwrap().permissions();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
        0o600
    );
    world.cri.remove_pod(&first.pod_id).await.unwrap();

    let pod = world.node.pod("second");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.going_on(&archive);
    let id = world.cri.create(&pod_id, &pod, &spec).await.unwrap();
    let status = world.cri.status(&id).await.unwrap();
    assert_eq!(status.state(), ContainerState::ContainerCreated);
    assert!(
        status.image.unwrap().image.contains("busybox"),
        "its image is what it was made from"
    );
    // A made container waits for its start through the daemon's death, as others do.
    world.crash().await;
    world.cri.start(&id).await.unwrap();
    let second = Running { pod, pod_id, id };
    counts_beyond(&second, written_at + 5).await;
    // What was printed last before may have come to the log a moment later.
    let counted = numbers(&second);
    assert!(
        counted[0] > 5 && counted[0] <= written_at + 5,
        "{counted:?} after {written_at}"
    );
    let steady = counted.windows(2).all(|pair| pair[1] == pair[0] + 1);
    assert!(steady, "{counted:?}");
    let status = world.cri.status(&second.id).await.unwrap();
    assert_eq!(status.state(), ContainerState::ContainerRunning);
    // Its files are as they were, and commands run in it.
    let n: u64 = printed(&world, &second.id, LAST).await.parse().unwrap();
    assert!(n > written_at);
    let group = printed(
        &world,
        &second.id,
        &["sh", "-c", "ls /etc/group || echo gone"],
    )
    .await;
    assert!(group.contains("gone"), "{group}");
    // It is in the cgroup that belongs to it.
    let cgroups = printed(&world, &second.id, &["cat", "/proc/1/cgroup"]).await;
    assert!(!cgroups.contains(&first.id), "{cgroups}");
    // It can be written out again.
    world.write_out(&second.id, &archive).await.unwrap();
    world.cri.stop(&second.id, 0).await.unwrap();
    assert_eq!(world.cri.wait_exited(&second.id).await.exit_code, 137);
    world.finish().await;
}

#[tokio::test]
async fn an_image_that_is_a_checkpoint_is_restored_only_where_that_is_allowed() {
    let allowed = Node::orlop().config("[containers]\nrestore_images = true\n");
    let world = criu_world!(allowed);
    let first = world.run_script("first", COUNTING).await;
    counts_beyond(&first, 5).await;
    let archive = world.place("first.tar");
    world.write_out(&first.id, &archive).await.unwrap();
    let as_image = ImageBuilder::new()
        .archive(std::fs::read(&archive).unwrap(), Compression::Gzip)
        .annotation("org.criu.checkpoint.container.name", "main")
        .build();
    let name = world.image(&as_image, "checkpoint:1").await;
    let pod = world.node.pod("second");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.going_on(Path::new(&name));
    let id = world.cri.run(&pod_id, &pod, &spec).await.unwrap();
    let second = Running { pod, pod_id, id };
    counts_beyond(&second, 8).await;
    assert!(numbers(&second)[0] > 5);
    world.finish().await;

    // Elsewhere whoever may name an image does not thereby get its rights.
    let world = ours!();
    let name = world.image(&as_image, "checkpoint:1").await;
    let pod = world.node.pod("refused");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.going_on(Path::new(&name));
    let refused = world.cri.create(&pod_id, &pod, &spec).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert_contains!(refused.message(), "containers.restore_images");
    world.finish().await;
}

#[tokio::test]
async fn archives_are_not_restored_where_that_is_forbidden() {
    let world = world!(Node::orlop().config("[containers]\nrestore_archives = false\n"));
    let pod = world.node.pod("refused");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.going_on(&world.place("archive.tar"));
    let refused = world.cri.create(&pod_id, &pod, &spec).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert_contains!(refused.message(), "containers.restore_archives");
    world.finish().await;
}

#[tokio::test]
async fn a_pod_is_written_out_at_one_moment_and_restored() {
    let world = criu_world!();
    let pod = world.node.pod("pair");
    let pod_id = world.run_pod(&pod).await;
    let a = world.container("a").shell(COUNTING);
    let b = world.container("b").shell(COUNTING);
    let id_a = world.cri.run(&pod_id, &pod, &a).await.unwrap();
    let id_b = world.cri.run(&pod_id, &pod, &b).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let to = world.node.scratch().subdir("checkpoint");
    let both = [id_a.as_str(), id_b.as_str()];

    // What is wrong is told, and nothing is written.
    for (ids, option, words) in [
        (&both[..0], None, "container_ids"),
        (&[both[0], both[0]][..], None, "twice"),
        (&both[..], Some(("leave-stopped", "true")), "leave-stopped"),
        (&both[..], Some(("file-locks", "perhaps")), "perhaps"),
    ] {
        let refused = world.write_out_pod(&pod_id, ids, &to, option).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains(words), "{refused}");
        assert_eq!(std::fs::read_dir(&to).unwrap().count(), 0);
    }
    let done = world.write_out_pod(&pod_id, &both, &to, None).await;
    done.unwrap();
    let refused = world.write_out_pod(&pod_id, &both, &to, None).await;
    let refused = refused.unwrap_err();
    assert!(refused.message().contains("not empty"), "{refused}");
    // They run on.
    for id in both {
        let n = printed(&world, id, LAST).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_ne!(printed(&world, id, LAST).await, n);
    }
    world.cri.remove_pod(&pod_id).await.unwrap();

    let pod = world.node.pod("again");
    let other = world.container("b").shell("echo something else");
    let missing = world.container("c").shell(COUNTING);
    for (specs, words) in [
        (&[&a][..], "has no \"b\""),
        (&[&a, &b, &missing][..], "contains \"c\""),
        (&[&a, &a][..], "twice"),
        (&[&a, &other][..], "something else"),
    ] {
        let refused = world.restore_pod(&to, &pod, specs).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains(words), "{refused}");
        assert!(
            world.cri.pods().await.unwrap().is_empty(),
            "nothing is left"
        );
        assert!(world.cri.containers().await.unwrap().is_empty());
    }
    let restored = world.restore_pod(&to, &pod, &[&a, &b]).await.unwrap();
    assert_eq!(restored.restored_containers.len(), 2);
    for container in &restored.restored_containers {
        let status = world.cri.status(&container.container_id).await.unwrap();
        assert_eq!(status.state(), ContainerState::ContainerCreated);
        assert_eq!(status.metadata.unwrap().name, container.name);
        world.cri.start(&container.container_id).await.unwrap();
        let n = printed(&world, &container.container_id, LAST).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let later = printed(&world, &container.container_id, LAST).await;
        let (n, later): (u64, u64) = (n.parse().unwrap(), later.parse().unwrap());
        assert!(n > 5 && later > n, "{n}, then {later}");
    }
    // What it was restored from is not used up.
    assert!(to.join("pod.options").is_file());
    world.finish().await;
}

#[tokio::test]
async fn an_operator_writes_a_pod_out_and_restores_it() {
    let world = criu_world!();
    let running = world.run_script("by-hand", COUNTING).await;
    counts_beyond(&running, 5).await;
    let command = |words: &[&str]| {
        let mut command = Command::new(orlop_testkit::node::binary());
        let endpoint = format!("unix://{}", world.node.socket().display());
        command
            .args(["--config", "/dev/null", "-r", &endpoint])
            .args(words);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
            said,
        )
    };
    let dir = world.place("by hand");
    let dir = dir.to_str().unwrap();
    let (ok, out, said) = command(&["checkpoint", "--pod", "by-hand", "-e", dir]);
    assert!(ok, "{said}");
    assert_eq!(out.trim(), running.pod_id);
    let (ok, _, said) = command(&["checkpoint", "--pod", "by-hand", "-e", dir]);
    assert!(!ok && said.contains("not empty"), "{said}");
    world.cri.remove_pod(&running.pod_id).await.unwrap();

    let pod = world.node.pod("again");
    let config = pod.config();
    let metadata = config.metadata.unwrap();
    let (pod_file, container_file) = (world.place("pod.json"), world.place("main.json"));
    let json = serde_json::json!({
        "metadata": {"name": metadata.name, "uid": metadata.uid, "namespace": metadata.namespace},
        "log_directory": config.log_directory,
        "linux": {
            "cgroup_parent": config.linux.unwrap().cgroup_parent,
            "security_context": {"namespace_options": {"network": "NODE"}},
        },
    });
    std::fs::write(&pod_file, json.to_string()).unwrap();
    let mut json = serde_json::json!({
        "metadata": {"name": "main"},
        "image": {"image": world.busybox},
        "command": ["/bin/sh", "-c", COUNTING],
        "log_path": "main.log",
    });
    std::fs::write(&container_file, json.to_string()).unwrap();
    let (pod_file, container) = (pod_file.to_str().unwrap(), container_file.to_str().unwrap());
    let (ok, out, said) = command(&["restore", dir, pod_file, container]);
    assert!(ok, "{said}");
    let ids: Vec<_> = out.lines().collect();
    assert_eq!(ids.len(), 2, "the pod and its container: {out}");
    let id = ids[1].to_owned();
    let pod_id = ids[0].to_owned();
    let restored = Running { pod, pod_id, id };
    counts_beyond(&restored, 8).await;
    assert!(numbers(&restored)[0] > 5);

    json["command"] = serde_json::json!(["sleep", "1"]);
    std::fs::write(container, json.to_string()).unwrap();
    let (ok, _, said) = command(&["restore", "--no-start", dir, pod_file, container]);
    assert!(!ok && !said.is_empty(), "{said}");
    world.finish().await;
}

#[tokio::test]
async fn a_daemon_killed_while_it_writes_leaves_no_frozen_container() {
    let mut world = criu_world!();
    let running = world.run_script("frozen", COUNTING).await;
    counts_beyond(&running, 3).await;
    for after in [5, 20, 40, 60, 80, 100, 150, 200, 300] {
        let archive = world.place("frozen.tar");
        let cri = world.node.cri().await;
        let request = CheckpointContainerRequest {
            container_id: running.id.clone(),
            location: archive.to_str().unwrap().to_owned(),
            timeout: 0,
        };
        let call = tokio::spawn(async move {
            let path = "/runtime.v1.RuntimeService/CheckpointContainer";
            cri.call::<_, CheckpointContainerResponse>(path, request)
                .await
        });
        tokio::time::sleep(Duration::from_millis(after)).await;
        world.node.kill9();
        let _ = call.await;
        world.start_again().await;
        let at = numbers(&running).last().copied().unwrap();
        counts_beyond(&running, at).await;
    }
    // And the next one succeeds.
    let archive = world.place("whole.tar");
    world.write_out(&running.id, &archive).await.unwrap();
    assert!(names_in(&archive).iter().any(|name| name == "config.dump"));
    world.finish().await;
}

#[tokio::test]
async fn what_cannot_be_written_out_or_go_on_is_told() {
    let world = criu_world!();
    let running = world.run_script("refused", "sleep 600").await;
    let id = running.id.as_str();
    for (location, words) in [
        ("relative.tar", "absolute"),
        ("/", "absolute path of a file"),
        ("/proc", "is a directory"),
        ("/nowhere/at/all.tar", "does not exist"),
    ] {
        let refused = world.write_out(id, Path::new(location)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains(words), "{refused}");
    }
    let archive = world.place("a.tar");
    let refused = world.write_out("nobody", &archive).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound, "{refused}");
    let idle = world.container("idle").command(&["true"]);
    let idle = world.cri.create(&running.pod_id, &running.pod, &idle).await;
    let idle = idle.unwrap();
    let refused = world.write_out(&idle, &archive).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("is not running"), "{refused}");
    assert!(!archive.exists());
    world.cri.remove(&idle).await.unwrap();

    let create = async |image: &Path| {
        let spec = world.going_on(image).attempt(7);
        world
            .cri
            .create(&running.pod_id, &running.pod, &spec)
            .await
            .unwrap_err()
    };
    let refused = create(&world.place("not there.tar")).await;
    assert_eq!(refused.code(), Code::NotFound, "{refused}");
    assert!(refused.message().contains("not there.tar"), "{refused}");
    let rubbish = world.place("rubbish.tar");
    std::fs::write(&rubbish, vec![b'x'; 5000]).unwrap();
    let refused = create(&rubbish).await;
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert_contains!(refused.message(), "is not a checkpoint archive");
    let empty = world.place("empty.tar");
    std::fs::write(&empty, vec![0; 1024]).unwrap();
    let refused = create(&empty).await;
    assert!(refused.message().contains("config.dump"), "{refused}");
    assert_eq!(
        world.cri.containers().await.unwrap(),
        std::slice::from_ref(&running.id),
        "nothing is left"
    );

    // One whose images are damaged is made, and its start says why not.
    world.write_out(id, &archive).await.unwrap();
    let damaged = world.place("damaged.tar");
    damage(&archive, &damaged);
    let spec = world.going_on(&damaged).attempt(8);
    let made = world.cri.create(&running.pod_id, &running.pod, &spec).await;
    let made = made.unwrap();
    let refused = world.cri.start(&made).await.unwrap_err();
    assert!(refused.message().contains("criu: "), "{refused}");
    let status = world.cri.status(&made).await.unwrap();
    assert_eq!(status.state(), ContainerState::ContainerExited);
    assert_eq!(status.reason, "StartError");
    world.cri.remove(&made).await.unwrap();
    world.finish().await;
}

/// A copy of an archive without what CRIU looks at first.
fn damage(from: &Path, to: &Path) {
    let mut archive = tar::Archive::new(std::fs::File::open(from).unwrap());
    let mut builder = tar::Builder::new(std::fs::File::create(to).unwrap());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().into_owned();
        if path != Path::new("checkpoint/inventory.img") {
            let mut header = entry.header().clone();
            builder.append_data(&mut header, path, &mut entry).unwrap();
        }
    }
    builder.into_inner().unwrap();
}
