//! A hundred pods.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_pods_are_ready_soon_and_cost_little_then() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    if std::env::var_os("ORLOP_TEST_MANY").is_none() {
        orlop_testkit::skip!("takes the machine for itself; set ORLOP_TEST_MANY");
    }
    let world = World::start().await;
    let first = world.run("first", json!({"containers": [world.idle("main")]}));
    world.ready(&first).await;
    let quiet =
        |name: &str| json!({"name": name, "image": world.image, "command": ["sleep", "100000"]});
    let begun = Instant::now();
    let uids: Vec<_> = (0..100)
        .map(|n| {
            world.run(
                &format!("pod-{n}"),
                json!({"terminationGracePeriodSeconds": 0, "containers": [quiet("main")]}),
            )
        })
        .collect();
    for uid in &uids {
        world.ready(uid).await;
    }
    let took = begun.elapsed();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = cpu_time();
    let window = Duration::from_secs(20);
    tokio::time::sleep(window).await;
    let share = cpu_time().saturating_sub(before).as_secs_f64() / window.as_secs_f64();
    eprintln!(
        "100 pods ready in {took:?}; idle: {:.2} % of a core, {} KiB",
        share * 100.0,
        memory()
    );
    let begun = Instant::now();
    for uid in &uids {
        world.manager.remove_pod(uid, None);
    }
    for uid in &uids {
        world.gone(uid).await;
    }
    eprintln!("and gone in {:?}", begun.elapsed());
    world.finish().await;
}

/// What this process has used of the processors.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
