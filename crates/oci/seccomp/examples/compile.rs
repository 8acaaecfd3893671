//! How long a profile takes to compile, and what it becomes: `cargo run --release --example compile
//! PROFILE`, where the profile is the `linux.seccomp` of a `config.json`.
#![allow(clippy::disallowed_methods, reason = "the file is of who calls this")]

use std::time::{Duration, Instant};

use orlop_seccomp::Program;

const TIMES: usize = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: compile PROFILE")?;
    let profile = serde_json::from_slice(&std::fs::read(path)?)?;
    let mut times: Vec<Duration> = Vec::with_capacity(TIMES);
    let mut length = 0;
    for _ in 0..TIMES {
        let start = Instant::now();
        length = std::hint::black_box(Program::compile(&profile)?)
            .instructions()
            .len();
        times.push(start.elapsed());
    }
    times.sort_unstable();
    println!(
        "{length} instructions, {:?} in the median, {:?} at most",
        times[TIMES / 2],
        times[TIMES - 1]
    );
    Ok(())
}
