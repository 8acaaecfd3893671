//! orlop's own client, on a node of the test's.

use std::process::{Command, Output, Stdio};

use orlop_testkit::node;

use crate::world::World;

/// orlop's own client, asked for something on the node.
pub(crate) fn command(world: &World, line: &[&str]) -> Command {
    let mut command = Command::new(node::binary());
    let endpoint = format!("unix://{}", world.node.socket().display());
    command
        .args(["--config", "/dev/null", "--runtime-endpoint", &endpoint])
        .args(line)
        .stdin(Stdio::null());
    command
}

pub(crate) fn run(world: &World, line: &[&str]) -> Output {
    command(world, line).output().expect("run orlop")
}

/// Whether a command succeeds, and all that it prints.
pub(crate) fn said(world: &World, line: &[&str]) -> (bool, String) {
    let output = run(world, line);
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// What a command that succeeds prints.
#[track_caller]
pub(crate) fn out(world: &World, line: &[&str]) -> String {
    let output = run(world, line);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}
