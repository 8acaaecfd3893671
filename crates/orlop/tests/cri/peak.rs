//! What the daemon keeps of its memory when many pods have come and gone.

use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use orlop_testkit::process::memory;

use crate::world::{World, ours};

/// How many pods live at the same time, and how much more the daemon may keep of them, in kB.
const PODS: usize = 160;
const KEPT: u64 = 5 << 10;

/// With `ORLOP_PEAK_PODS=500`, the long form.
const KEPT_OF_MANY: u64 = 10 << 10;

/// How many calls are on their way together.
const LANES: usize = 8;

/// How long it may take to give memory back.
const LIMIT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn memory_is_given_back_when_many_pods_have_come_and_gone() {
    let world = ours!();
    // What a daemon has once it has done everything once is no part of the peak.
    come_and_go(&world, LANES).await;
    let before = resting(&world).await;

    let wanted = std::env::var("ORLOP_PEAK_PODS").ok();
    let (pods, kept) = wanted
        .and_then(|text| text.parse().ok())
        .map_or((PODS, KEPT), |pods| (pods, KEPT_OF_MANY));
    let peak = come_and_go(&world, pods).await;
    let after = at_most(&world, before + kept).await;
    let told = format!("{before} kB, with {pods} pods {peak} kB, then {after} kB");
    println!("{told}");
    assert!(peak > before + kept, "no peak: {told}");
    assert!(after <= before + kept, "not given back: {told}");
    world.finish().await;
}

/// Runs that many pods at the same time and removes them all; how much the daemon took.
async fn come_and_go(world: &World, pods: usize) -> u64 {
    let ups = (0..pods).map(|n| async move {
        let pod = world.node.pod(&format!("peak-{n}"));
        let id = world.cri.run_pod(&pod).await?;
        let spec = world.container("main").shell("sleep 86400");
        world.cri.run(&id, &pod, &spec).await?;
        Ok::<_, tonic::Status>(id)
    });
    let ups: Vec<_> = stream::iter(ups).buffer_unordered(LANES).collect().await;
    let peak = resident(world);
    let downs = ups.into_iter().map(|up| async move {
        let id = up?;
        world.cri.stop_pod(&id).await?;
        world.cri.remove_pod(&id).await
    });
    let downs: Vec<_> = stream::iter(downs).buffer_unordered(LANES).collect().await;
    for down in downs {
        down.expect("a pod comes and goes");
    }
    peak
}

/// The daemon's memory once it no longer changes: it is given back some seconds after a burst.
pub(crate) async fn resting(world: &World) -> u64 {
    let mut last = (resident(world), Instant::now());
    while last.1.elapsed() < Duration::from_secs(7) {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let now = resident(world);
        if now.abs_diff(last.0) > 64 {
            last = (now, Instant::now());
        }
    }
    last.0
}

/// The daemon's memory when it is down to this, or when it did not get there.
async fn at_most(world: &World, wanted: u64) -> u64 {
    let deadline = Instant::now() + LIMIT;
    while resident(world) > wanted && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    resident(world)
}

/// The memory of the daemon that is not its program's file, in kB.
pub(crate) fn resident(world: &World) -> u64 {
    memory(world.node.pid(), "RssAnon:")
}
