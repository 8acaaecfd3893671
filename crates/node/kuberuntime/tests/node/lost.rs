//! Pods whose sandbox goes under them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use orlop_cri_api::v1;
use orlop_kuberuntime::manager::Shutdown;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::world::{LIMIT, World, container, world};

/// How many pods lose their sandbox: what comes first of a container's end and its sandbox's is
/// another thing each time.
const PODS: usize = 3;

const CONTAINERS: [&str; 5] = ["first", "second", "side", "main", "other"];

/// Each container counts its own starts.
fn spec(world: &World, dir: &Path) -> Value {
    let counts = |name: &str, then: &str| {
        let mut it = world.sh(name, &format!("echo >> /runs/{name}; {then}"));
        it["volumeMounts"] = json!([{"name": "runs", "mountPath": "/runs"}]);
        it
    };
    let stays = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
    let mut side = counts("side", stays);
    side["restartPolicy"] = json!("Always");
    json!({
        "initContainers": [counts("first", ""), counts("second", ""), side],
        "containers": [counts("main", stays), counts("other", stays)],
        "volumes": [{"name": "runs", "hostPath": {"path": dir}}],
    })
}

async fn sandboxes_of(world: &World, uid: &str) -> Vec<v1::PodSandbox> {
    let all = world.manager.runtime().list_pod_sandbox(None).await;
    let mut all = all.expect("list");
    all.retain(|it| it.metadata.as_ref().is_some_and(|meta| meta.uid == uid));
    all
}

/// The pod runs in a sandbox other than `lost`, with so many containers.
async fn anew(world: &World, uid: &str, lost: &str, containers: usize) {
    let deadline = Instant::now() + LIMIT;
    loop {
        let found = sandboxes_of(world, uid).await;
        let ready = found.iter().find(|it| it.state == 0 && it.id != lost);
        let listed = world.manager.runtime().list_containers(None).await;
        let running = listed.expect("list").into_iter().filter(|it| {
            it.state() == v1::ContainerState::ContainerRunning
                && ready.is_some_and(|sandbox| sandbox.id == it.pod_sandbox_id)
        });
        if running.count() == containers && world.manager.pod(uid).is_some_and(|view| view.ready) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{uid} does not come back\n{}",
            world.story(uid)
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until all containers have run so often: one that is running may not have said so yet.
async fn all_ran(dir: &Path, times: usize) {
    let deadline = Instant::now() + LIMIT;
    for name in CONTAINERS {
        while runs(dir, name) < times {
            assert!(Instant::now() < deadline, "{name} does not run");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn runs(dir: &Path, name: &str) -> usize {
    let text = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
    text.lines().count()
}

async fn counts_one_restart(world: &World, lose: impl AsyncFn(&str)) {
    let mut pods = BTreeMap::new();
    for number in 0..PODS {
        let name = format!("lost-{number}");
        let dir = world.dir(&name);
        pods.insert(world.run(&name, spec(world, &dir)), dir);
    }
    for (uid, dir) in pods {
        world.ready(&uid).await;
        all_ran(&dir, 1).await;
        let lost = sandboxes_of(world, &uid).await[0].id.clone();
        lose(&lost).await;
        anew(world, &uid, &lost, 3).await;
        let view = world.ready(&uid).await;
        all_ran(&dir, 2).await;
        for name in CONTAINERS {
            let shown = container(&view, name);
            let (restarts, runs) = (&shown["restartCount"], runs(&dir, name));
            assert!(
                *restarts == 1 && runs == 2,
                "{name} has {restarts} restarts and ran {runs} times\n{}",
                world.story(&uid)
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_sandbox_is_stopped_beneath_it_counts_one_restart() {
    let world = world!();
    counts_one_restart(&world, async |sandbox| {
        let runtime = world.manager.runtime();
        runtime.stop_pod_sandbox(sandbox).await.expect("stop");
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_keeper_is_killed_counts_one_restart() {
    let world = world!();
    counts_one_restart(&world, async |sandbox| {
        kill_process(keeper_of(sandbox), Signal::KILL).expect("kill");
    })
    .await;
    world.finish().await;
}

/// As containerd 2 stops a sandbox, telling of each end at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_containers_end_before_its_sandbox_counts_one_restart() {
    let world = world!();
    counts_one_restart(&world, async |sandbox| {
        let runtime = world.manager.runtime();
        for container in runtime.list_containers(None).await.expect("list") {
            if container.pod_sandbox_id == sandbox {
                let stopped = runtime.stop_container(&container.id, Duration::ZERO).await;
                stopped.expect("stop");
            }
        }
        runtime.stop_pod_sandbox(sandbox).await.expect("stop");
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_only_made_when_the_sandbox_went_is_no_restart() {
    let mut world = world!();
    let spec = json!({"containers": [world.idle("main")]});
    let uid = world.run("made", spec.clone());
    world.ready(&uid).await;
    let sandbox = sandboxes_of(&world, &uid).await[0].clone();
    world.manager.shutdown(Shutdown::Leave).await;
    make_next(&world, &sandbox).await;
    let runtime = world.manager.runtime();
    runtime.stop_pod_sandbox(&sandbox.id).await.expect("stop");
    world.restart_manager(|_| {}).await;
    world.run("made", spec);
    world.manager.sources_ready();
    anew(&world, &uid, &sandbox.id, 1).await;
    let view = world.ready(&uid).await;
    let restarts = &container(&view, "main")["restartCount"];
    assert_eq!(*restarts, 1, "{}", world.story(&uid));
    world.finish().await;
}

/// Makes the next instance of `main` as an agent would that is killed right then.
async fn make_next(world: &World, sandbox: &v1::PodSandbox) {
    let labels = |name: &str| format!("io.kubernetes.{name}");
    let mut labels_of: BTreeMap<String, String> = sandbox.labels.clone().into_iter().collect();
    labels_of.insert(labels("container.name"), "main".to_owned());
    let config = v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata {
            name: "main".to_owned(),
            attempt: 1,
        }),
        image: Some(v1::ImageSpec {
            image: world.image.clone(),
            ..v1::ImageSpec::default()
        }),
        labels: labels_of.into_iter().collect(),
        annotations: [(labels("container.restartCount"), "1".to_owned())].into(),
        log_path: "main/1.log".to_owned(),
        linux: Some(v1::LinuxContainerConfig::default()),
        ..v1::ContainerConfig::default()
    };
    let of_pod = v1::PodSandboxConfig {
        metadata: sandbox.metadata.clone(),
        ..v1::PodSandboxConfig::default()
    };
    let runtime = world.manager.runtime();
    let made = runtime.create_container(&sandbox.id, config, of_pod).await;
    made.expect("create");
}

/// The process that a sandbox stands and falls with: its keeper, or containerd's shim.
fn keeper_of(sandbox: &str) -> Pid {
    let entries = std::fs::read_dir("/proc").expect("read /proc").flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let found = pids.find(|pid| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = command.split(|byte| *byte == 0);
        let program = words.next().unwrap_or_default();
        (program.ends_with(b"orlop-keeper") || program.ends_with(b"containerd-shim-runc-v2"))
            && words.any(|word| word == sandbox.as_bytes())
    });
    Pid::from_raw(found.expect("a keeper")).expect("a process id")
}
