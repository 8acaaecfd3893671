//! What a node owes the calls that need no stranger while all its strangers let it wait.
//!
//! The same calls are measured on a quiet node and on one where, at once, a network plugin hangs
//! under 70 pods, 8 registries send a byte now and then, containers wait for a volume whose server
//! is gone, and a plugin of the Node Resource Interface does not answer.
//!
//! `cargo bench -p orlop --bench siege` fails where the slowest of a hundred takes more than twice
//! as long as on the quiet node.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::large_futures,
    reason = "a benchmark fails by panicking"
)]

mod calls;
mod strangers;

use std::time::Duration;

use orlop_testkit::{HangingNetwork, ImageBuilder, Node, Registry, machine};

use crate::calls::{Calls, Times};
use crate::strangers::Strangers;

/// Calls of each kind: the slowest of a hundred is one of three.
const ROUNDS: usize = 300;
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
    let broken = reactor.block_on(measure());
    std::process::exit(i32::from(broken));
}

/// Whether a call takes too long under siege.
async fn measure() -> bool {
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
    println!(
        "p99, in ms: {:>24} {:>10} {:>10}",
        "quiet", "besieged", "limit"
    );
    let mut broken = false;
    for (name, quiet) in &quiet {
        let besieged = &besieged[name];
        let limit = quiet.p99() * TIMES + NOISE;
        broken |= besieged.p99() > limit;
        let verdict = if besieged.p99() > limit {
            "BROKEN: "
        } else {
            ""
        };
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        println!(
            "{verdict}{name:<25} {:>10.1} {:>10.1} {:>10.1}",
            ms(quiet.p99()),
            ms(besieged.p99()),
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
