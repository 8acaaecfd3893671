//! Images that are mounted while they are fetched, against the same pulled whole, and against Debian's
//! containerd with stargz-snapshotter, from a registry of 20 MB/s.
//!
//! The image has a gigabyte in 30,000 files, in an eStargz layer. Its container reads one file of 20, 5 % of
//! the image, which alone takes 2.5 s of the line: a fifth of them before it answers its first request, as
//! a program loads itself and its libraries, and the others from then on. Both moments are measured, from
//! RunPodSandbox on, with PullImage behind it as a kubelet has it; the least of the rounds counts. What is
//! read comes first in the image, as `ctr-remote` and other optimizers make it; an image in the order of its
//! archive is measured beside it.
//!
//! Then what is cached is read and looked at, and 20 other images show what a node takes that has many.
//!
//! `cargo bench -p orlop --bench lazy` fails where a promise of SPECIFICATION.md is broken.
//! `ORLOP_TEST_STARGZ` names a server of stargz-snapshotter, without which nothing is compared with it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::large_futures,
    clippy::disallowed_methods,
    reason = "a benchmark fails by panicking, and reads what it wrote itself"
)]

mod crowd;
mod images;
mod promises;
mod start;
mod warm;

use std::time::Duration;

use orlop_testkit::{FaultProxy, NodeBuilder, Registry, machine};

use crate::images::{Order, Shape};
use crate::promises::Promises;
use crate::start::{Start, Started, lazily, stargz, start, whole};
use crate::warm::Warm;

/// Bytes a second of the registry.
const LINE: u64 = 20_000_000;
/// The image that is started.
const SHAPE: Shape = Shape {
    files: 30_000,
    bytes: 1_000_000_000,
};
/// How often it is.
const ROUNDS: usize = 3;
/// Other images, and files of each.
const IMAGES: usize = 20;
const FILES: usize = 30_000;
/// How long nobody reads before it is looked at what they cost. The daemon keeps for up to half a minute
/// what it may need again: contents of images, threads, deadlines.
const SETTLE: Duration = Duration::from_secs(40);

fn main() {
    if let Err(reason) = machine::can_run_pods() {
        eprintln!("nothing can be measured: this machine {reason}");
        std::process::exit(1);
    }
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut promises = Promises::default();
    reactor.block_on(measure(&mut promises));
    std::process::exit(i32::from(promises.are_broken()));
}

async fn measure(promises: &mut Promises) {
    let registry = Registry::start();
    let proxy = FaultProxy::before(registry.address());
    let peer = match machine::stargz_server() {
        Ok(server) => Some(server),
        Err(reason) => {
            println!("nothing is compared with stargz-snapshotter: {reason}");
            None
        }
    };
    proxy.bandwidth(Some(LINE));
    let mut first = None;
    for order in [Order::Wanted, Order::Any] {
        let name = SHAPE.push(&registry, order).await;
        // What is in no order takes long, and is no promise but one.
        let rounds = if order == Order::Wanted { ROUNDS } else { 1 };
        let ours = least(rounds, || lazily(""), &proxy, &name).await;
        show(&format!("orlop, {}", order.name()), &ours);
        if order == Order::Wanted {
            first = Some(ours.first);
        }
        if let Some(server) = &peer {
            let theirs = least(rounds, || stargz(server), &proxy, &name).await;
            show(&format!("stargz-snapshotter, {}", order.name()), &theirs);
            let of_theirs = ours.first.as_secs_f64() / theirs.first.as_secs_f64();
            promises.at_most(
                "first answer, of stargz-snapshotter's time",
                of_theirs,
                promises::OF_STARGZ,
            );
            if order == Order::Wanted {
                let of_theirs = ours.all.as_secs_f64() / theirs.all.as_secs_f64();
                promises.at_most(
                    "all read, of stargz-snapshotter's time",
                    of_theirs,
                    promises::OF_STARGZ,
                );
            }
        }
    }
    cached(&proxy, first.expect("it was measured"), promises).await;
    crowded(&registry, &proxy, promises).await;
}

/// The best of several starts, each on a node of its own.
async fn least(
    rounds: usize,
    node: impl Fn() -> NodeBuilder,
    proxy: &FaultProxy,
    name: &str,
) -> Start {
    let mut best: Option<Start> = None;
    for _ in 0..rounds {
        let started = start(node(), proxy, name).await;
        let took = started.took;
        started.end().await;
        best = Some(match best {
            Some(best) if best.first <= took.first => best.or_sooner(took),
            Some(best) => took.or_sooner(best),
            None => took,
        });
    }
    best.expect("at least one round")
}

/// What is cached, in an image that stays lazy and in one that was pulled whole.
async fn cached(proxy: &FaultProxy, first: Duration, promises: &mut Promises) {
    let (name, read) = (Order::Wanted.repository(), SHAPE.read());
    let unpacked = start(whole(), proxy, &name).await;
    show("orlop, pulled whole", &unpacked.took);
    let of_whole = first.as_secs_f64() / unpacked.took.first.as_secs_f64();
    promises.at_most("first answer, of a whole pull's", of_whole, promises::FIRST);
    // Nothing is fetched that nobody reads.
    let lazy: Started = start(lazily("lazy_cache = \"1MiB\""), proxy, &name).await;
    let (ours, theirs) = (Warm::of(lazy.pid, &read), Warm::of(unpacked.pid, &read));
    let mut ratio = 0.0;
    for state in ["as they came", "anew"] {
        let [fast, plain] = warm::read_in_turns(&ours, &theirs);
        ratio = fast / plain;
        let (fast, plain, files) = (fast / 1e6, plain / 1e6, ours.files());
        println!(
            "{files} files cached {state}: lazy {fast:.0} MB/s, unpacked {plain:.0}: {ratio:.2}"
        );
        ours.cache_anew();
        theirs.cache_anew();
    }
    let (looks, plain_looks) = (ours.looks(), theirs.looks());
    println!("stats a second: lazy {looks:.0}, unpacked {plain_looks:.0}");
    assert_eq!(
        crowd::server_of(&lazy.node).len(),
        1,
        "the image was not lazy any more"
    );
    promises.at_least(
        "cached files read, of the unpacked form's speed",
        ratio,
        promises::READ,
    );
    promises.at_least(
        "cached stats a second, of the unpacked form's",
        looks / plain_looks,
        promises::LOOKS,
    );
    drop((ours, theirs));
    lazy.end().await;
    unpacked.end().await;
}

/// Many images, lazy and whole.
async fn crowded(registry: &Registry, proxy: &FaultProxy, promises: &mut Promises) {
    let mut names = Vec::new();
    for number in 0..IMAGES {
        names.push(images::push_small(registry, FILES, number).await);
    }
    proxy.bandwidth(None);
    let settings = "lazy_min_layer = \"0\"\nlazy_cache = \"1\"";
    let with = crowd::measure(lazily(settings), proxy, &names, SETTLE).await;
    let (server_kb, server_wakes) = with.server.expect("a server of lazy layers");
    println!(
        "{IMAGES} images of {FILES} files, lazy: server {server_kb} kB and {server_wakes} wake-ups in 5 s, \
         daemon {} kB and {}",
        with.daemon_kb, with.daemon_wakes,
    );
    promises.at_most(
        "server's memory, MB",
        server_kb as f64 / 1e3,
        promises::SERVER_MB,
    );
    promises.exactly_none("wake-ups of the server", server_wakes);
    let without = crowd::measure(whole(), proxy, &names, SETTLE).await;
    println!(
        "the same whole: daemon {} kB and {}",
        without.daemon_kb, without.daemon_wakes
    );
    let more = with.daemon_wakes.saturating_sub(without.daemon_wakes);
    promises.exactly_none("wake-ups of the daemon for lazy images", more);
}

fn show(what: &str, start: &Start) {
    let s = |time: Duration| time.as_secs_f64();
    let mb = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "{what:<34} sandbox {:.3} s, pulled {:.3}, started {:.3}, first answer {:.3} ({:.1} MB), \
         all read {:.3} ({:.1} MB, {} requests)",
        s(start.sandbox),
        s(start.pulled),
        s(start.started),
        s(start.first),
        mb(start.first_bytes),
        s(start.all),
        mb(start.all_bytes),
        start.requests,
    );
}
