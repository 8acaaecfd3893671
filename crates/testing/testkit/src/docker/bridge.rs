//! Network bridge of an engine's containers, named after the test.

use std::process::Command;

use crate::machine;
use crate::scratch::Scratch;

/// A bridge that is removed on drop.
#[derive(Debug)]
pub(super) struct Bridge {
    name: String,
}

impl Bridge {
    /// Creates a bridge with the first address of the test's subnet.
    pub(super) fn new(scratch: &Scratch) -> Self {
        let bridge = Self {
            name: scratch.id().to_owned(),
        };
        let address = scratch.subnet().replace(".0/24", ".1/24");
        ip(&["link", "add", &bridge.name, "type", "bridge"]);
        ip(&["address", "add", &address, "dev", &bridge.name]);
        ip(&["link", "set", &bridge.name, "up"]);
        bridge
    }

    /// Returns the name of the bridge.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// Returns a subnet of unique local addresses, as unique as the test's IPv4 subnet.
pub(super) fn subnet_v6(scratch: &Scratch) -> String {
    let number = scratch.id().trim_start_matches("ot");
    let (high, low) = number.split_at(4);
    format!("fd00:{high}:{low}::/64")
}

fn ip(args: &[&str]) {
    let program = machine::program("ip").unwrap_or_else(|e| panic!("{e}"));
    let output = Command::new(program).args(args).output().expect("run ip");
    assert!(output.status.success(), "ip {args:?}: {output:?}");
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if let Ok(program) = machine::program("ip") {
            let _ = Command::new(program)
                .args(["link", "delete", &self.name])
                .output();
        }
    }
}
