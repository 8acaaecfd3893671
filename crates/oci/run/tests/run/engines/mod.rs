//! Docker, podman and containerd with our runtime instead of theirs: each runs containers, runs commands in
//! them, changes their limits, writes them out where CRIU works, stops and removes them.
//!
//! `ORLOP_RUN=PROGRAM` tries another runtime.

mod containerd;
mod docker;
mod podman;

use std::process::{Command, Output};
use std::time::Duration;

use orlop_testkit::ImageBuilder;

/// The name of the image that is run.
const IMAGE: &str = "testkit.invalid/busybox:1";

/// The runtime under test.
fn runtime() -> String {
    std::env::var("ORLOP_RUN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_orlop-run").to_owned())
}

fn archive() -> Vec<u8> {
    ImageBuilder::busybox().build().docker_archive(IMAGE)
}

/// What a command printed; it must succeed.
fn printed(output: Output, of: &Command) -> String {
    assert!(output.status.success(), "{of:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Waits until it holds.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    orlop_testkit::block_until!(
        Duration::from_secs(20),
        holds(),
        "waited in vain until {what}"
    );
}

/// How the container of a test is run, for all engines.
const OPTIONS: &[&str] = &[
    "--detach",
    "--name=one",
    "--hostname=ship",
    "--memory=64m",
    "--user=1000:1000",
    "--env=COLOUR=blue",
    "--workdir=/tmp",
    "--cap-drop=ALL",
    "--read-only",
];

/// Where a container reads its limit of memory, in bytes.
const MEMORY: &str = "cat /sys/fs/cgroup/memory.max 2> /dev/null || \
    cat /sys/fs/cgroup/memory/memory.limit_in_bytes";
/// Counts in memory: by its output it is seen whether it went on or began anew.
const COUNTING: &str = "i=0; while :; do i=$((i+1)); echo $i > /count; sleep 0.05; done";
