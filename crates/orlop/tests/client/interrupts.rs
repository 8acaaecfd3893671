//! An interrupt cancels what a command is at, and nothing half-made is left: no pod, container or
//! process on the node, no piece of a file on either side.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Output};
use std::time::{Duration, Instant};

use orlop_testkit::{
    ContainerSpec, ImageBuilder, Layer, Node, NodeBuilder, machine, node, skip_unless,
};

use crate::world::World;

const LIMIT: Duration = Duration::from_secs(20);

/// A directory of this side, beside a node.
struct Scene {
    world: World,
    directory: tempfile::TempDir,
}

impl Scene {
    async fn start(node: NodeBuilder) -> Self {
        Self {
            world: World::start(node).await,
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The files of a pod and a container in it.
    fn configurations(&self, name: &str) -> (String, String) {
        let pod = self.world.node.pod(name).own_network().config();
        let pod = serde_json::to_string(&orlop_cri_api::json::view(&pod)).unwrap();
        let container = format!(
            "metadata: {{name: {name}}}\nimage: {{image: '{}'}}\ncommand: [sleep, '600']\n\
             log_path: {name}.log\n",
            self.world.image
        );
        (
            self.file(&format!("{name}.json"), &pod),
            self.file(&format!("{name}.yaml"), &container),
        )
    }

    /// What a command in a container prints.
    async fn shell(&self, id: &str, script: &str) -> String {
        let output = self.world.cri.exec(id, &["sh", "-c", script]).await;
        let output = output.unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until a command in a container prints something, or nothing.
    async fn until(&self, id: &str, script: &str, something: bool) {
        let deadline = Instant::now() + LIMIT;
        loop {
            let printed = self.shell(id, script).await;
            if printed.trim().is_empty() != something {
                return;
            }
            assert!(Instant::now() < deadline, "`{script}`: {printed:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Interrupts a command and waits for its end, which must be soon and no success.
fn interrupt(child: Child) -> Output {
    let start = Instant::now();
    node::interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert!(start.elapsed() < LIMIT, "it went on for {LIMIT:?}");
    output
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn commands_in_containers_end_with_the_client() {
    skip_unless!(machine::can_run_pods());
    let scene = Scene::start(Node::orlop()).await;
    let world = &scene.world;
    let pod = world.node.pod("commands");
    let pod_id = world.cri.run_pod(&pod).await.unwrap();
    let spec = ContainerSpec::new("main", &world.image).shell("while :; do sleep 1; done");
    let id = world.cri.run(&pod_id, &pod, &spec).await.unwrap();
    for words in [
        &["exec", "main", "sleep", "4711"][..],
        &["exec", "-r", "websocket", "main", "sleep", "4711"],
        &["exec", "-s", "main", "sleep", "4711"],
    ] {
        let child = world.client.begin(words);
        scene.until(&id, "ps | grep '[4]711'", true).await;
        let output = interrupt(child);
        assert!(!output.status.success(), "{words:?}");
        scene.until(&id, "ps | grep '[4]711'", false).await;
    }
    // Looking at a container is nothing that it notices.
    for words in [&["attach", "main"][..], &["logs", "-f", "main"]] {
        let child = world.client.begin(words);
        tokio::time::sleep(Duration::from_millis(300)).await;
        interrupt(child);
    }
    assert_eq!(world.cri.status(&id).await.unwrap().finished_at, 0);
    scene.world.finish().await;
}

#[tokio::test]
async fn pods_and_containers_are_there_whole_or_not_at_all() {
    skip_unless!(machine::can_run_pods());
    let tools = tempfile::tempdir().unwrap();
    let slow = tools.path().join("slow");
    // A runtime that takes its time to create.
    let script = "#!/bin/sh\ncase \" $* \" in *' create '*) sleep 0.3;; esac\nexec runc \"$@\"\n";
    fs::write(&slow, script).unwrap();
    fs::set_permissions(&slow, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let scene = Scene::start(Node::orlop().runtime(slow.to_str().unwrap())).await;
    let world = &scene.world;
    let (pod_file, container_file) = scene.configurations("half");
    let stays = world.node.pod("stays");
    let stays_id = world.cri.run_pod(&stays).await.unwrap();
    let lines: [&[&str]; 3] = [
        &["runp", &pod_file],
        &["run", "--no-pull", &container_file, &pod_file],
        &["create", &stays_id, &container_file, &pod_file],
    ];
    let mut cut_off = 0;
    for round in 0..24_u64 {
        let words = lines[round as usize % 3];
        let child = world.client.begin(words);
        tokio::time::sleep(Duration::from_millis(round * 31 % 500)).await;
        let output = interrupt(child);
        let told = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let pods = world.cri.pods().await.unwrap();
        let containers = world.cri.containers().await.unwrap();
        let what = format!("{words:?} in round {round}: {output:?}");
        if output.status.success() {
            // It was done before.
            assert!(pods.contains(&told) || containers.contains(&told), "{what}");
            for id in containers {
                world.cri.stop(&id, 0).await.unwrap();
                world.cri.remove(&id).await.unwrap();
            }
            for id in pods.iter().filter(|id| **id != stays_id) {
                world.cri.stop_pod(id).await.unwrap();
                world.cri.remove_pod(id).await.unwrap();
            }
        } else {
            cut_off += 1;
            assert_eq!(
                pods,
                std::slice::from_ref(&stays_id),
                "a pod is left by {what}"
            );
            assert!(containers.is_empty(), "a container is left by {what}");
        }
    }
    assert!(cut_off >= 6, "only {cut_off} were interrupted in time");
    scene.world.finish().await;
}

#[tokio::test]
async fn files_are_there_whole_or_not_at_all() {
    skip_unless!(machine::can_run_pods());
    let scene = Scene::start(Node::orlop()).await;
    let world = &scene.world;
    let pod = world.node.pod("files");
    let pod_id = world.cri.run_pod(&pod).await.unwrap();
    let spec = ContainerSpec::new("main", &world.image).shell("sleep 86400");
    let id = world.cri.run(&pod_id, &pod, &spec).await.unwrap();
    let here = scene.directory.path().join("here");
    fs::create_dir(&here).unwrap();
    let big = scene.directory.path().join("big");
    File::create(&big).unwrap().set_len(64 << 30).unwrap();
    let (here_text, big_text) = (here.to_str().unwrap(), big.to_str().unwrap());

    // Out of the container: one file that never ends, and many.
    scene.shell(
            &id,
            "mkdir -p /many /in; truncate -s 64G /many/0 /endless; for i in 1 2 3; do echo $i > /many/$i; done",
        )
        .await;
    for source in ["main:/endless", "main:/many"] {
        let child = world.client.begin(&["cp", source, here_text]);
        orlop_testkit::wait_until!(
            LIMIT,
            !names(&here).is_empty(),
            "nothing is copied of {source}"
        );
        let output = interrupt(child);
        assert!(!output.status.success(), "{source}: {output:?}");
        assert_eq!(names(&here), Vec::<String>::new(), "{source}");
    }

    // Into it: under its own name, and under another.
    for target in ["main:/in", "main:/in/other"] {
        let child = world.client.begin(&["cp", big_text, target]);
        scene.until(&id, "ls -A /in", true).await;
        let output = interrupt(child);
        assert!(!output.status.success(), "{target}: {output:?}");
        assert_eq!(scene.shell(&id, "ls -A /in").await, "", "{target}");
    }
    scene.world.finish().await;
}

#[tokio::test]
async fn images_are_there_whole_or_not_at_all() {
    skip_unless!(machine::can_run_pods());
    let scene = Scene::start(Node::orlop()).await;
    let world = &scene.world;
    let built = ImageBuilder::busybox()
        .layer(Layer::new().noise("big", 16 << 20))
        .build();
    let big = world.registry.push(&built, "big:1").await;
    let out = scene.directory.path().join("out");
    fs::create_dir(&out).unwrap();
    let archive = out.join("big.tar");
    let layout = out.join("layout/");
    let (archive, layout) = (archive.to_str().unwrap(), layout.to_str().unwrap());
    for round in 0..6_u64 {
        let child = world.client.begin(&["pull", &big]);
        tokio::time::sleep(Duration::from_millis(round * 40)).await;
        let pulled = interrupt(child).status.success();
        let known = world.cri.image(&big).await.unwrap();
        // Others may wait for the same image, so the runtime may get it whole all the same.
        assert!(known.is_some() || !pulled);
        if known.is_some() {
            world.cri.remove_image(&big).await.unwrap();
        }
    }
    let done = world.cri.pull(&big).await;
    done.expect("it can be pulled after all that");
    for round in 0..12_u64 {
        let target = if round % 2 == 0 { archive } else { layout };
        let child = world.client.begin(&["image", "export", "-o", target, &big]);
        tokio::time::sleep(Duration::from_millis(round * 23)).await;
        let written = interrupt(child).status.success();
        let found = names(&out);
        assert_eq!(
            found.len(),
            usize::from(written),
            "round {round}: {found:?}"
        );
        let _ = fs::remove_file(archive);
        let _ = orlop_fs::remove_tree(layout.as_ref());
    }
    scene.world.finish().await;
}
