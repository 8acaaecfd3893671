//! A daemon that comes back is there at once, and leaves alone what it does not understand.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use orlop_cri_api::v1::{ContainerState, PodSandboxState};
use orlop_testkit::Node;
use orlop_testkit::machine::patience;

use crate::reload::{applied, run_by, which};
use crate::world::{Running, World, ours, world};

/// How many containers run when the daemon is restarted; `ORLOP_RESTART_CONTAINERS=200` for the
/// long form.
fn containers() -> usize {
    std::env::var("ORLOP_RESTART_CONTAINERS").map_or(20, |text| text.parse().expect("a number"))
}

#[tokio::test]
async fn a_crowd_is_taken_up_within_a_second() {
    let mut world = ours!();
    let count = containers();
    let spec = world.container("main").command(&["sleep", "600"]);
    let pods = (0..count).map(|n| world.node.pod(&format!("crowd-{n}")));
    let ids: Vec<String> = stream::iter(pods.collect::<Vec<_>>())
        .map(|pod| {
            let (cri, spec) = (world.cri.clone(), spec.clone());
            async move {
                let pod_id = cri.run_pod(&pod).await.expect("run a pod");
                cri.run(&pod_id, &pod, &spec).await.expect("run")
            }
        })
        .buffer_unordered(8)
        .collect()
        .await;
    world.node.kill9();
    let start = Instant::now();
    world.node.start_again().await;
    let took = start.elapsed();
    println!("{count} running containers were taken up in {took:?}");
    world.cri = world.node.cri().await;
    for id in &ids {
        let status = world.cri.status(id).await.expect("status");
        assert_eq!(status.state(), ContainerState::ContainerRunning);
    }
    assert!(
        took < Duration::from_secs(1) * patience(),
        "it took {took:?}"
    );
    world.finish().await;
}

#[tokio::test]
async fn a_removal_to_be_finished_does_not_keep_clients_waiting() {
    let tools = tempfile::tempdir().expect("a directory");
    // A runtime that takes its time to delete.
    let slow = script(
        tools.path(),
        "slow",
        &format!(
            "case \" $* \" in *' delete '*) sleep {};; esac; exec runc \"$@\"",
            3 * patience()
        ),
    );
    let at_once = Duration::from_millis(2500) * patience();
    let mut world = world!(Node::orlop().runtime(&slow));
    let going = world.run_script("going", "sleep 600").await;
    let pod = world.node.pod("going");
    world.node.kill9();
    let record = pod_record(&world, &going.pod_id);
    append(&record, "{\"event\":\"removing\"}\n");
    let start = Instant::now();
    world.node.start_again().await;
    let took = start.elapsed();
    assert!(took < at_once, "it took {took:?}");
    world.cri = world.node.cri().await;
    // Another pod needs not wait for it, and its own name is free once it is gone.
    let start = Instant::now();
    world.run_pod(&world.node.pod("other")).await;
    assert!(start.elapsed() < at_once);
    let again = world.run_pod(&pod).await;
    assert_ne!(again, going.pod_id);
    let pods = world.cri.pods().await.expect("list");
    assert!(!pods.contains(&going.pod_id), "it is removed");
    world.finish().await;
}

#[tokio::test]
async fn one_claim_on_an_image_that_cannot_be_released_keeps_no_other() {
    let mut world = ours!();
    let going = world.run_script("going", "sleep 600").await;
    let claims = world.node.root().join("images/leases");
    let of = |owner: &str| claims.join(owner);
    world.node.kill9();
    // Of containers that are gone, before and after the one of which is asked first.
    let own = std::fs::read(of(&going.id)).expect("a claim");
    let others = ["aaa", "aab", "zzz"];
    for other in others {
        std::fs::write(of(other), &own).expect("a claim of nobody");
    }
    let stuck = Stuck::file(of("aab"));
    world.start_again().await;
    let begin = Instant::now();
    // It is told of when all have been tried.
    let told = || {
        world
            .node
            .log()
            .contains("cannot release image leases of containers that no longer exist")
    };
    while of("aaa").exists() || of("zzz").exists() || !told() {
        assert!(
            begin.elapsed() < Duration::from_secs(10) * patience(),
            "{}",
            world.node.log()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(of("aab").exists() && of(&going.id).exists());
    let log = world.node.log();
    assert!(log.contains("the lease of aab"), "{log}");
    drop(stuck);
    world.restart().await;
    while of("aab").exists() {
        assert!(begin.elapsed() < Duration::from_secs(30) * patience());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.finish().await;
}

/// A file that cannot be removed, as something is mounted on it.
struct Stuck(PathBuf);

impl Stuck {
    fn file(path: PathBuf) -> Self {
        rustix::mount::mount_bind(&path, &path).expect("mount");
        Self(path)
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[tokio::test]
async fn a_pod_with_a_record_of_the_future_is_left_alone() {
    let world = ours!();
    let record = |world: &World, pod: &str, _: &str| pod_record(world, pod);
    leaves_alone(world, record).await;
}

#[tokio::test]
async fn a_pod_with_a_container_s_record_of_the_future_is_left_alone() {
    let world = ours!();
    let record = |world: &World, pod: &str, container: &str| {
        let directory = pod_record(world, pod);
        directory
            .with_file_name("containers")
            .join(container)
            .join("journal")
    };
    leaves_alone(world, record).await;
}

#[tokio::test]
async fn what_a_damaged_disk_took_the_record_of_is_ended_and_the_file_named() {
    let mut world = ours!();
    let script = "while :; do echo tick; sleep 0.05; done";
    let lost = world.run_script("lost", script).await;
    let half = world.run_script("half", script).await;
    let beside = world.container("beside").command(&["sleep", "600"]);
    let beside = world.cri.run(&half.pod_id, &half.pod, &beside).await;
    let torn = world.run_script("torn", "sleep 600").await;
    let beside = beside.expect("a second container");
    let record = |running: &Running| {
        let pod = pod_record(&world, &running.pod_id);
        let container = pod.with_file_name("containers").join(&running.id);
        (pod, container.join("journal"))
    };
    let (lost_record, half_record, torn_record) =
        (record(&lost).0, record(&half).1, record(&torn).1);
    world.node.kill9();
    for path in [&lost_record, &half_record] {
        std::fs::write(path, [0xff; 300]).expect("damage a record");
    }
    append(&torn_record, "{\"event\":\"sta");
    world.start_again().await;

    let mut pods = world.cri.pods().await.expect("list");
    pods.sort();
    let mut known = [half.pod_id.clone(), torn.pod_id.clone()];
    known.sort();
    assert_eq!(pods, known);
    for id in [&beside, &torn.id] {
        let status = world.cri.status(id).await.expect("status");
        assert_eq!(status.state(), ContainerState::ContainerRunning);
    }
    // Nobody could end it later, and a kubelet starts another in its place.
    for (ended, pod) in [(&lost, false), (&half, true)] {
        falls_silent(ended, 5, &format!("its pod known: {pod}")).await;
        let cgroups = orlop_testkit::leaks::cgroups(world.node.id());
        let own = cgroups.iter().find(|path| path.ends_with(&ended.id));
        assert_eq!(own, None, "its pod known: {pod}");
    }
    let log = world.node.log();
    for path in [
        lost_record.parent().expect("its directory"),
        half_record.parent().expect("its directory"),
        &torn_record,
    ] {
        assert!(log.contains(&path.display().to_string()), "{path:?}: {log}");
    }
    world.finish().await;
}

#[tokio::test]
async fn what_has_no_record_is_ended_where_its_runtime_is_gone_as_well() {
    let runc = which("runc");
    let table = format!("[runtimes.gone]\npath = {runc:?}\n");
    let mut world = ours!();
    applied(&world, &table);
    let pod = world.node.pod("gone");
    let pod_id = run_by(&world, &pod, "gone").await.expect("a pod");
    let script = "while :; do echo tick; sleep 0.05; done";
    let spec = world.container("main").shell(script);
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run it");
    let running = Running { pod, pod_id, id };
    applied(&world, "");
    world.node.kill9();
    let record = pod_record(&world, &running.pod_id);
    let record = record.with_file_name("containers").join(&running.id);
    std::fs::write(record.join("journal"), [0xff; 300]).expect("damage a record");
    world.start_again().await;
    falls_silent(&running, 10, "though its runtime is gone").await;
    let has_cgroup = || {
        let cgroups = orlop_testkit::leaks::cgroups(world.node.id());
        cgroups.iter().any(|path| path.ends_with(&running.id))
    };
    orlop_testkit::wait_until!(
        Duration::from_secs(5) * patience(),
        !has_cgroup(),
        "its cgroup stays"
    );
    world.finish().await;
}

#[tokio::test]
async fn what_is_made_after_the_clock_was_set_back_counts_as_the_latest() {
    let mut world = ours!();
    let first = world.run_script("main", "sleep 600").await;
    let second = first.pod.clone().attempt(1);
    world.node.kill9();
    // As if they had been made while the clock was some days ahead.
    let record = pod_record(&world, &first.pod_id);
    let of_container = record.with_file_name("containers").join(&first.id);
    for path in [&record, &of_container.join("journal")] {
        made_later(path, 200_000_000_000_000);
    }
    world.start_again().await;
    let before = world.cri.status(&first.id).await.expect("status");
    world.cri.stop(&first.id, 0).await.expect("stop it");
    let again = world
        .container("main")
        .command(&["sleep", "600"])
        .attempt(1);
    let again = world.cri.run(&first.pod_id, &first.pod, &again).await;
    let again = again.expect("the next attempt");
    let told = world.cri.status(&again).await.expect("status");
    assert!(told.created_at > before.created_at, "{told:?}");
    assert_eq!(
        world.cri.containers().await.expect("list"),
        [again.as_str(), first.id.as_str()],
        "the latest comes first"
    );

    let before = world.cri.pod_status(&first.pod_id).await.expect("status");
    world.cri.stop_pod(&first.pod_id).await.expect("stop it");
    let next = world.cri.run_pod(&second).await.expect("another attempt");
    let told = world.cri.pod_status(&next).await.expect("status");
    assert!(told.created_at > before.created_at, "{told:?}");
    // Another pod is as old as it is.
    let other = world.run_script("other", "sleep 600").await;
    let other = world.cri.pod_status(&other.pod_id).await.expect("status");
    assert!(other.created_at < before.created_at, "{other:?}");
    world.finish().await;
}

/// Has a record say that it was begun so many nanoseconds later.
fn made_later(record: &Path, by: i64) {
    let text = std::fs::read_to_string(record).expect("the record");
    let (first, rest) = text.split_once('\n').expect("a line");
    let mut event: serde_json::Value = serde_json::from_str(first).expect("an event");
    let at = event["at"].as_i64().expect("its time");
    event["at"] = (at + by).into();
    std::fs::write(record, format!("{event}\n{rest}")).expect("write it");
}

async fn leaves_alone(mut world: World, record: impl Fn(&World, &str, &str) -> PathBuf) {
    let script = "while :; do echo tick; sleep 0.05; done";
    let strange = world.run_script("strange", script).await;
    let plain = world.run_script("plain", "sleep 600").await;
    let path = record(&world, &strange.pod_id, &strange.id);
    world.node.kill9();
    let before = std::fs::metadata(&path).expect("the record").len();
    append(&path, "{\"event\":\"of_the_future\"}\n");
    world.start_again().await;

    let pods = world.cri.pods().await.expect("list");
    assert_eq!(pods, [plain.pod_id.as_str()], "the other pod is served");
    // Garbage collection and tidying have had their time, and the container goes on.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let lines = strange.stdout().lines().count();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(strange.stdout().lines().count() > lines, "it was ended");

    // The newer daemon comes back, to which the entry means something.
    world.node.kill9();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("open");
    file.set_len(before).expect("cut off");
    world.start_again().await;
    let pod = world.cri.pod_status(&strange.pod_id).await.expect("status");
    assert_eq!(pod.state(), PodSandboxState::SandboxReady);
    let status = world.cri.status(&strange.id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerRunning);
    world.finish().await;
}

/// As `/var/run/orlop` is, where `/var/run` leads to `/run`.
#[tokio::test]
async fn a_state_directory_may_be_reached_by_a_link() {
    let mut world = ours!();
    world.node.kill9();
    let state = world.node.state();
    let really = state.with_file_name("really");
    std::fs::rename(&state, &really).expect("rename it");
    std::os::unix::fs::symlink(&really, &state).expect("a link");
    world.start_again().await;
    let running = world.run_script("linked", "sleep 600").await;
    let command = ["touch", "/made", "/dev/shm/made"];
    let made = world.cri.exec(&running.id, &command).await.expect("exec");
    assert_eq!(made.exit_code, 0);
    world.cri.remove_pod(&running.pod_id).await.expect("remove");
    // Where what cleans up after tests looks.
    world.node.kill9();
    std::fs::remove_file(&state).expect("the link");
    std::fs::rename(&really, &state).expect("rename it");
    world.start_again().await;
    world.finish().await;
}

/// Waits until a container prints nothing more.
async fn falls_silent(running: &Running, seconds: u64, though: &str) {
    let deadline = Instant::now() + Duration::from_secs(seconds) * patience();
    let mut lines = 0;
    while lines != running.stdout().lines().count() {
        assert!(Instant::now() < deadline, "it goes on, {though}");
        lines = running.stdout().lines().count();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn pod_record(world: &World, pod: &str) -> PathBuf {
    world.node.root().join("pods").join(pod).join("journal")
}

fn append(path: &Path, text: &str) {
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(path)
        .expect("open");
    file.write_all(text.as_bytes()).expect("write");
}

/// Our runtime behind a script that does something before a container is made.
pub(crate) fn before_create(directory: &Path, text: &str) -> String {
    let own = orlop_testkit::node::run_binary();
    let text = format!(
        "case \" $* \" in *' create '*) {text};; esac; exec {} \"$@\"",
        own.display()
    );
    script(directory, "before-create", &text)
}

/// A shell script that stands for a runtime.
pub(crate) fn script(directory: &Path, name: &str, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = directory.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("write a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    path.to_string_lossy().into_owned()
}
