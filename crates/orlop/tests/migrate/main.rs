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
use std::process::{Command, Output};

use orlop_testkit::node::binary;

/// `orlop migrate`, with a kubelet's configuration that is not this machine's.
fn migrate(from: &str, config: &Path, words: &[&str]) -> Output {
    Command::new(binary())
        .args([
            "migrate",
            "--from",
            from,
            "--kubelet-config",
            "/dev/null",
            "--config",
        ])
        .arg(config)
        .args(words)
        .output()
        .expect("run orlop")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
