//! Pods come and go without end, and nothing dies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_testkit::process::memory;

use super::{Lane, Progress, Remains, number};
use crate::peak::{resident, resting};
use crate::world::{World, ours};

/// How many pods are on their way together.
const LANES: usize = 4;

/// How many come and go at least before the daemon's memory is looked at for the first time:
/// until then it fills what it keeps of the last ones.
const FIRST: u32 = 60;

/// And what part of all the others, if that is more: what is freed in pieces is used again only
/// after a while.
const PART: u32 = 10;

/// By how much the memory of its own may have grown after all the others, in hundredths of all
/// that is resident.
const GROWTH: u64 = 5;

/// How often it is told how far it is.
const TELL: Duration = Duration::from_mins(1);

#[tokio::test]
async fn pods_that_come_and_go_without_end_leave_nothing_and_cost_no_more_memory() {
    let world = ours!();
    let cycles = number("ORLOP_CHAOS_CYCLES", 100);
    let cycles = u32::try_from(cycles).expect("fewer");
    let begun = Instant::now();
    come_and_go(&world, "first", FIRST.max(cycles / PART)).await;
    let remains = Remains::of(&world.node);
    let before = resting(&world).await;
    let all = memory(world.node.pid(), "VmRSS:");
    come_and_go(&world, "later", cycles).await;
    let after = resting(&world).await;
    println!(
        "{cycles} pods in {:.0?}: {before} kB of {all} kB, then {after} kB",
        begun.elapsed()
    );
    let most = before + all * GROWTH / 100;
    assert!(after <= most, "{before} kB, after {cycles} pods {after} kB");
    Remains::settle(&world.node, &remains).await;
    world.finish().await;
}

/// That many pods come and go.
async fn come_and_go(world: &World, name: &str, pods: u32) {
    let begun = Instant::now();
    let progress = Arc::new(Progress::default());
    let lanes: Vec<_> = (0..LANES)
        .map(|n| tokio::spawn(Lane::of(world, format!("{name}{n}"), &progress).run()))
        .collect();
    let mut told = begun;
    while progress.finished() < pods && !lanes.iter().any(tokio::task::JoinHandle::is_finished) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if told.elapsed() > TELL {
            told = Instant::now();
            let (gone, kb) = (progress.finished(), resident(world));
            println!("{gone} pods in {:.0?}, {kb} kB", begun.elapsed());
        }
    }
    progress.end();
    for lane in lanes {
        lane.await.expect("a lane ends well");
    }
    assert_eq!(progress.troubles(), Vec::<String>::new());
}
