//! The daemon, keepers and runtimes are killed at random moments.

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_testkit::machine::has_program;
use orlop_testkit::{Chance, Cri, ImageBuilder, Layer, Node, skip_unless};
use tonic::Status;

use super::memory::Memory;
use super::victim::Victim;
use super::{Lane, Progress, Remains, number};
use crate::world::{World, ours, world};

/// A shim that Debian's containerd brings along.
const SHIM: &str = "containerd-shim-runc-v2";

/// As much of a program's name as the kernel keeps.
const COMM: usize = 15;

/// How long it may take until the next pod has come and gone.
const PROGRESS_LIMIT: Duration = Duration::from_mins(1);

/// Of the layer that is pulled again and again.
const LAYER: usize = 4 << 20;

/// Who dies.
#[derive(Clone, Copy)]
pub(super) enum Who<'a> {
    Daemon,
    /// The daemon for want of memory.
    Starved(&'a Memory),
    Keeper,
    Runtime,
    Shim,
}

#[tokio::test]
async fn a_daemon_killed_at_random_moments_loses_and_leaks_nothing() {
    let mut world = ours!();
    kill_again_and_again(&mut world, Who::Daemon).await;
    world.finish().await;
}

#[tokio::test]
async fn keepers_killed_at_random_moments_leave_nothing_and_disturb_no_other_pod() {
    let mut world = ours!();
    kill_again_and_again(&mut world, Who::Keeper).await;
    world.finish().await;
}

#[tokio::test]
async fn runtimes_killed_at_random_moments_leave_nothing_and_disturb_no_other_pod() {
    let mut world = ours!();
    kill_again_and_again(&mut world, Who::Runtime).await;
    world.finish().await;
}

#[tokio::test]
async fn shims_killed_at_random_moments_leave_nothing_and_disturb_no_other_pod() {
    skip_unless!(has_program(SHIM));
    let mut world = world!(Node::orlop().runtime(SHIM));
    kill_again_and_again(&mut world, Who::Shim).await;
    world.finish().await;
}

/// That many deaths while pods come and go, and images.
pub(super) async fn kill_again_and_again(world: &mut World, who: Who<'_>) {
    let kills = number("ORLOP_CHAOS_KILLS", 5);
    let mut chance = Chance::of_seed(number("ORLOP_CHAOS_SEED", 1));
    // A bystander that must not notice any of it.
    let bystander = world.run_script("bystander", "sleep 86400").await;
    let started = world.cri.status(&bystander.id).await.expect("status");
    let image = ImageBuilder::busybox().layer(Layer::new().file("large", vec![7; LAYER], 0o644));
    let image = world.registry.push(&image.build(), "large:1").await;
    let before = quiet(world, &image).await;

    let progress = Arc::new(Progress::default());
    let lanes: Vec<_> = (0..3)
        .map(|n| tokio::spawn(Lane::of(world, format!("lane{n}"), &progress).run()))
        .collect();
    let pulls = tokio::spawn(pull_on(world.cri.clone(), image, Arc::clone(&progress)));
    // What waits for its container knows it by its own name alone.
    let spared = &[bystander.pod_id.as_str(), bystander.id.as_str()];
    let mut killed = 0;
    while killed < kills {
        let finished = progress.finished();
        let moment = Duration::from_micros(chance.below(150_000) as u64);
        match who {
            Who::Daemon => {
                tokio::time::sleep(moment).await;
                world.node.kill9();
                world.node.start_again().await;
                killed += 1;
            }
            Who::Starved(memory) => {
                tokio::time::sleep(moment).await;
                memory.exhaust(&mut world.node, &mut chance).await;
                killed += 1;
            }
            Who::Keeper => {
                tokio::time::sleep(moment).await;
                let keeper = &["orlop-keeper"];
                let victim = Victim::find(keeper, world.node.id(), spared).await;
                killed += u64::from(victim.kill());
            }
            Who::Shim => {
                tokio::time::sleep(moment).await;
                let shims = &[&SHIM[..COMM]];
                let victim = Victim::find(shims, world.node.id(), spared).await;
                killed += u64::from(victim.kill());
            }
            Who::Runtime => {
                let runtimes = &["orlop-run", "runc", "crun", "runsc"];
                let victim = Victim::find(runtimes, world.node.id(), spared).await;
                tokio::time::sleep(moment / 8).await;
                killed += u64::from(victim.kill());
            }
        }
        // Pods come and go between the kills, or nothing was tried.
        let deadline = Instant::now() + PROGRESS_LIMIT;
        while progress.finished() == finished {
            let stuck = lanes.iter().any(tokio::task::JoinHandle::is_finished);
            assert!(
                !stuck && Instant::now() < deadline,
                "no pod has come and gone since kill {killed}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    progress.end();
    for lane in lanes {
        lane.await.expect("a lane ends well");
    }
    pulls.await.expect("the pulls end well");
    let finished = progress.finished();
    println!("{finished} pods came and went over {killed} kills");

    let status = world.cri.status(&bystander.id).await.expect("status");
    assert_eq!(status.started_at, started.started_at);
    let pods = world.cri.pods().await.expect("list the pods");
    assert_eq!(pods, [bystander.pod_id.as_str()], "pods were left");
    Remains::settle(&world.node, &before).await;
}

/// Pulls an image and removes it again, until the end and then once more, when nothing may fail any
/// longer.
async fn pull_on(cri: Cri, image: String, progress: Arc<Progress>) {
    while !progress.is_over() {
        if pull_and_remove(&cri, &image).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let last = pull_and_remove(&cri, &image).await;
    last.expect("nothing dies any more");
}

async fn pull_and_remove(cri: &Cri, image: &str) -> Result<(), Status> {
    cri.pull(image).await?;
    cri.remove_image(image).await
}

/// What is there when nothing happens, once a first pod and the image have come and gone.
async fn quiet(world: &World, image: &str) -> Remains {
    let gone = pull_and_remove(&world.cri, image).await;
    gone.expect("nothing dies yet");
    let progress = Arc::new(Progress::default());
    progress.end();
    Lane::of(world, "first".to_owned(), &progress).run().await;
    Remains::of(&world.node)
}
