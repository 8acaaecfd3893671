//! A node that moves from containerd, CRI-O or Docker, with Debian's programs as those that were there before.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod configuration;
mod crio;
mod images;

use std::path::Path;
use std::process::Command;

use orlop_testkit::Node;
use orlop_testkit::node::binary;
use orlop_testkit::process::{Said, ended, run};

/// `orlop migrate`, with a kubelet's configuration that is not this machine's.
fn migrate(from: &str, config: &Path, words: &[&str]) -> Said {
    let mut command = Command::new(binary());
    command
        .args(["migrate", "--kubelet-config=/dev/null", "--from", from])
        .arg("--config")
        .arg(config)
        .args(words);
    ended(&mut command)
}

/// What it prints where it succeeds.
#[track_caller]
fn migrated(from: &str, config: &Path, words: &[&str]) -> String {
    let said = migrate(from, config, words);
    assert!(said.ok, "{said:?}");
    said.out
}

/// Asserts that a configuration is a good one.
fn check(config: &Path) {
    let mut check = Command::new(binary());
    run(check.args(["config", "check", "--config"]).arg(config));
}

/// What `orlop doctor` finds, which is no problem.
fn findings(node: &Node) -> serde_json::Value {
    let mut doctor = Command::new(binary());
    doctor
        .args(["doctor", "--json", "--socket"])
        .arg(format!("unix://{}", node.socket().display()))
        .arg("--daemon-config")
        .arg(node.scratch().path("config.toml"));
    serde_json::from_slice(&run(&mut doctor)).expect("JSON")
}
