//! What a container costs with our runtime, and with the others that this machine has: create, start and
//! delete of one bundle, exec into a container, back to back and at a pace.
//!
//! `cargo bench -p orlop-run --bench runtimes` measures, and fails where a promise of SPECIFICATION.md is
//! broken; with `-- short` it measures less and holds it to a looser limit. `ORLOP_BENCH_RUNTIMES=PROGRAM:…`
//! are more to compare with, `ORLOP_RUN` is another program than the one just built.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "benchmarks fail by panicking, and read what they wrote themselves, and the kernel's"
)]

mod bundle;
mod report;
mod runtime;

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use orlop_testkit::{Scratch, machine};

use crate::bundle::Bundle;
use crate::report::Report;
use crate::runtime::Runtime;

/// Says that this process is in a mount namespace of its own already.
const INSIDE: &str = "ORLOP_BENCH_INSIDE";
/// Between calls at a pace: a kubelet leaves more.
const PACE: Duration = Duration::from_millis(100);

fn main() {
    if let Err(reason) = machine::is_root().and_then(|()| machine::has_program("runc")) {
        println!("nothing can be measured: this machine {reason}");
        std::process::exit(1);
    }
    if std::env::var_os(INSIDE).is_none() {
        let error = go_inside();
        panic!("a mount namespace: {error}");
    }
    // `cargo bench` adds flags of its own; only our word counts.
    let short = std::env::args().any(|word| word == "short");
    let report = measure(if short { 5 } else { 100 });
    println!("{report}");
    let broken = report.broken_promises(short);
    for promise in &broken {
        println!("BROKEN: {promise}");
    }
    std::process::exit(i32::from(!broken.is_empty()));
}

/// Where version 2 of control groups is not beside version 1: crun refuses that.
fn go_inside() -> std::io::Error {
    let this = std::env::current_exe().expect("this program");
    let script = "[ -z \"$1\" ] || umount --lazy \"$1\"; shift; exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(this);
    command.arg(machine::v2_beside_v1().unwrap_or_default());
    command.args(std::env::args_os().skip(1)).env(INSIDE, "1");
    command.exec()
}

fn measure(rounds: usize) -> Report {
    // Who starts containers waits for them, as a shim does.
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own)).expect("wait for orphans");
    let scratch = Scratch::new();
    let bundle = Bundle::new(&scratch);
    let runtimes = Runtime::all(&scratch);
    let mut report = Report::default();
    for (manner, pace) in [("back to back", None), ("at a pace", Some(PACE))] {
        let rest = || pace.map(std::thread::sleep);
        // In blocks, so that each finds the caches that it left, and all the same noise.
        let block = if pace.is_some() { 1 } else { 10.min(rounds) };
        for round in 0..rounds.div_ceil(block) {
            for runtime in &runtimes {
                for turn in 0..block {
                    rest();
                    let times = runtime.life(&bundle);
                    // The first warms up.
                    if turn > 0 || pace.is_some() && round > 0 {
                        report.life(manner, &runtime.name, times);
                    }
                }
            }
        }
        for runtime in &runtimes {
            runtime.keep(&bundle);
        }
        for round in 0..rounds.div_ceil(block) {
            for runtime in &runtimes {
                for turn in 0..block {
                    rest();
                    let time = runtime.exec();
                    if turn > 0 || pace.is_some() && round > 0 {
                        report.exec(manner, &runtime.name, time);
                    }
                }
            }
        }
        for runtime in &runtimes {
            runtime.let_go();
        }
    }
    report
}
