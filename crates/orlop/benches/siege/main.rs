//! What a node owes the calls that need no stranger while all its strangers let it wait, and the other pods while one
//! has more of everything than all of them.
//!
//! `strangers`: the same calls are measured on a quiet node and on one where, at once, a network plugin hangs
//! under 70 pods, 8 registries send a byte now and then, containers wait for a volume whose server
//! is gone, and a plugin of the Node Resource Interface does not answer.
//!
//! `crowded`: the calls of other pods are measured on a quiet node and beside a pod with 20,000 processes, 10,000 mounts
//! and 100,000 cgroups, or as many as the machine has room for. The kernel itself gets slower with them: each
//! pivot_root(2), for one, looks at all processes. So the same steps are measured without a daemon, too, and what they
//! take more beside the crowd is not held against the calls.
//!
//! `cargo bench -p orlop --bench siege` fails if the slowest of a hundred calls takes more than twice
//! as long as on the quiet node; one of the two words measures one of them alone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::large_futures,
    reason = "a benchmark fails by panicking"
)]

mod calls;
mod crowded;
#[expect(
    dead_code,
    reason = "the bench of pods also measures its network and throughput"
)]
#[path = "../pods/floor/mod.rs"]
mod floor;
mod strangers;

use std::collections::BTreeMap;
use std::time::Duration;

use orlop_testkit::{HangingNetwork, ImageBuilder, Node, Registry, machine};

use crate::calls::{Calls, Times};
use crate::crowded::{Crowded, Others};
use crate::floor::Floor;
use crate::strangers::Strangers;

/// Calls of each kind: the slowest of a hundred is one of three.
const ROUNDS: usize = 300;
/// The same beside a crowded pod.
const ROUNDS_BESIDE: usize = 100;
/// How many times what it takes on the quiet node a call may take.
const TIMES: u32 = 2;
/// What each call may take more: other processes of the machine take as much.
const NOISE: Duration = Duration::from_millis(5);

fn main() {
    if let Err(reason) = machine::can_run_pods() {
        eprintln!("nothing can be measured: this machine {reason}");
        std::process::exit(1);
    }
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let has = |wanted: &str| std::env::args().any(|word| word == wanted);
    let all = has("strangers") == has("crowded");
    let mut broken = false;
    if all || has("strangers") {
        broken |= reactor.block_on(among_strangers());
    }
    if all || has("crowded") {
        broken |= reactor.block_on(beside_a_crowd());
    }
    std::process::exit(i32::from(broken));
}

/// Whether a call takes too long under siege.
async fn among_strangers() -> bool {
    let network = HangingNetwork::new();
    let registry = Registry::start();
    let image = ImageBuilder::busybox().build();
    let image = registry.push(&image, "busybox:1").await;
    let node = Node::orlop().drop_in(&network.section(300)).start().await;
    let calls = Calls::prepare(&node, &registry, &image, ROUNDS).await;
    let quiet = calls.measure(&node, "quiet").await;
    let strangers = Strangers::come(&node, &network, &registry, &image).await;
    let besieged = calls.measure(&node, "besieged").await;
    strangers.assert_still_there();
    strangers.leave().await;
    node.finish().await;
    is_broken(&quiet, &besieged, "besieged", |_| Duration::ZERO)
}

/// Whether a call of another pod takes too long beside a crowded one.
async fn beside_a_crowd() -> bool {
    let registry = Registry::start();
    let image = ImageBuilder::busybox().build();
    let image = registry.push(&image, "busybox:1").await;
    let node = Node::orlop().start().await;
    let others = Others::prepare(&node, &image, ROUNDS_BESIDE).await;
    let floor = Floor::new().expect("make the floor");
    let (quiet, kernel) = (others.measure("quiet").await, Kernel::measure(&floor));
    let crowded = Crowded::come(&node, &image).await;
    let (beside, slower) = (others.measure("crowded").await, Kernel::measure(&floor));
    let stopped = crowded.leave().await;
    node.finish().await;
    println!("the crowded pod itself is stopped in {stopped:?}");
    is_broken(&quiet, &beside, "crowded", |call| {
        slower.of(call).saturating_sub(kernel.of(call))
    })
}

/// How long the kernel itself takes for the steps of a pod.
#[derive(Default)]
struct Kernel {
    run: Times,
    start: Times,
    exec: Times,
    down: Times,
}

impl Kernel {
    fn measure(floor: &Floor) -> Self {
        let mut kernel = Self::default();
        for round in 0..ROUNDS_BESIDE {
            let life = floor.cycle(&format!("round-{round}")).expect("a pod");
            kernel.run.0.push(life.run);
            kernel.start.0.push(life.start);
            kernel.exec.0.push(life.exec);
            kernel.down.0.push(life.down);
        }
        kernel
    }

    /// The step that a call takes.
    fn of(&self, call: &str) -> Duration {
        let step = match call {
            "RunPodSandbox" => &self.run,
            "Create-, StartContainer" => &self.start,
            "ExecSync" => &self.exec,
            "StopContainer" | "StopPodSandbox" => &self.down,
            _ => return Duration::ZERO,
        };
        step.p99()
    }
}

/// Prints what the calls took; whether one took too long. `kernel` is what the kernel takes more for a call.
fn is_broken(
    quiet: &BTreeMap<&str, Times>,
    other: &BTreeMap<&str, Times>,
    when: &str,
    kernel: impl Fn(&str) -> Duration,
) -> bool {
    println!("p99, in ms: {:>24} {when:>10} {:>10}", "quiet", "limit");
    let mut broken = false;
    for (name, quiet) in quiet {
        let other = other[name].p99();
        let limit = quiet.p99() * TIMES + NOISE + kernel(name);
        broken |= other > limit;
        let verdict = if other > limit { "BROKEN: " } else { "" };
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        println!(
            "{verdict}{name:<25} {:>10.1} {:>10.1} {:>10.1}",
            ms(quiet.p99()),
            ms(other),
            ms(limit)
        );
    }
    broken
}

impl Times {
    /// The slowest but one in a hundred.
    fn p99(&self) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        sorted[(sorted.len() * 99).div_ceil(100) - 1]
    }
}
