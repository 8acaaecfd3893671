//! Many pods: ten, or as many as `ORLOP_TEST_PODS` says.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn many_pods_are_ready_soon_and_cost_little_then() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    let asked = std::env::var("ORLOP_TEST_PODS").ok();
    let count: u32 = asked.map_or(10, |count| count.parse().expect("a number of pods"));
    let world = World::start().await;
    let quiet =
        |name: &str| json!({"name": name, "image": world.image, "command": ["sleep", "100000"]});
    let spec = || json!({"terminationGracePeriodSeconds": 0, "containers": [quiet("main")]});
    // The image is here by then.
    let first = world.run("first", spec());
    world.ready(&first).await;
    let begun = Instant::now();
    let uids: Vec<_> = (0..count)
        .map(|n| world.run(&format!("pod-{n}"), spec()))
        .collect();
    for uid in &uids {
        world.ready(uid).await;
    }
    let took = begun.elapsed();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = cpu_time();
    let window = Duration::from_secs(if count > 50 { 20 } else { 5 });
    tokio::time::sleep(window).await;
    let share = cpu_time().saturating_sub(before).as_secs_f64() / window.as_secs_f64();
    let memory = memory();
    let begun = Instant::now();
    for uid in &uids {
        world.manager.remove_pod(uid, None);
    }
    for uid in &uids {
        world.gone(uid).await;
    }
    eprintln!(
        "{count} pods ready in {took:?}, gone in {:?}; idle: {:.2} % of a core, {memory} KiB",
        begun.elapsed(),
        share * 100.0
    );
    eprintln!("{}", operations(&world.manager.metrics()));
    // Where nothing is told, all pods are listed each second.
    let most = if world.node.is_peer() { 0.05 } else { 0.01 };
    assert!(
        share < most,
        "idle with {count} pods took {share} of a core"
    );
    assert!(
        memory < 40 << 10,
        "idle with {count} pods took {memory} KiB"
    );
    world.finish().await;
}

/// The calls of the runtime by name.
fn operations(metrics: &str) -> String {
    let lines = metrics.lines().filter_map(|line| {
        let (name, rest) = line
            .strip_prefix("kubelet_runtime_operations_total{operation_type=\"")?
            .split_once("\"} ")?;
        Some(format!("{name} {rest}"))
    });
    lines.collect::<Vec<_>>().join(", ")
}

/// What this process has used of the processors.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

fn memory() -> u64 {
    orlop_testkit::process::memory(std::process::id(), "VmRSS:")
}
