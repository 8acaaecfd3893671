//! Many pods on one node. `ORLOP_NODE_PODS` sets how many (`make test-release`: a hundred);
//! `cargo nextest run` shows the numbers with `--no-capture`.

use std::fs;
use std::time::{Duration, Instant};

use orlop_testkit::process::memory;

use crate::world::{is_ready, world};

#[tokio::test(flavor = "multi_thread")]
async fn many_pods_are_ready_soon_and_then_cost_next_to_nothing() {
    let world = world!();
    let count: usize = std::env::var("ORLOP_NODE_PODS").map_or(20, |it| it.parse().unwrap());
    for n in 0..count {
        let text = world.sleeper(&format!("p{n}"), "dnsPolicy: Default", "");
        let text = text.replace("while :; do sleep 1; done", "sleep 86400 & wait");
        world.write(&format!("p{n}.yaml"), &text);
    }
    let begin = Instant::now();
    let mut agent = world.agent(&["--max-pods=500", "--log-level=warn"]);
    let limit = Duration::from_mins(1).max(Duration::from_millis(600) * count as u32);
    loop {
        let pods = agent.json("/pods");
        let pods = pods["items"].as_array().unwrap();
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        if ready == count {
            break;
        }
        assert!(
            begin.elapsed() < limit,
            "{ready} of {count}:\n{}",
            agent.process.log()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let took = begin.elapsed();
    assert!(agent.process.ended().is_none());
    // What is left to do after the last pod came up is done.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let pid = agent.process.pid();
    let before = cpu_ticks(pid);
    let span = Duration::from_secs(10);
    tokio::time::sleep(span).await;
    let ticks = cpu_ticks(pid) - before;
    // A tick is a hundredth of a second.
    let share = ticks as f64 / 100.0 / span.as_secs_f64() * 100.0;
    let memory = memory(pid, "VmRSS:") as f64 / 1024.0;
    println!("{count} pods ready after {took:.1?}; idle: {share:.1} % of a core, {memory:.1} MiB");
    let (most, largest) = if orlop_testkit::node::is_release() {
        (1.0, 40.0)
    } else {
        // Not what anybody runs, on a machine that does other things beside.
        (5.0, 80.0)
    };
    assert!(share < most, "{share} % of a core while nothing happens");
    assert!(memory < largest, "{memory} MiB with {count} pods");
    if orlop_testkit::node::is_release() && count <= 100 {
        assert!(took < Duration::from_secs(15), "{count} pods took {took:?}");
    }
    agent.finish(&world).await;
    world.finish().await;
}

fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    // utime and stime of proc_pid_stat(5), counted from the state.
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
