//! `-info`: what this shim, and the runtime that it would call, can do.

use std::process::Command;
use std::time::Duration;

use orlop_ttrpc::{Any, Writer};

use crate::Result;
use crate::files::{print, unknown};
use crate::options::Options;
use crate::runtime;

/// More than options have.
const LARGEST: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(10);
const FEATURES: &str = "types.containerd.io/opencontainers/runtime-spec/1/features/Features";

pub(crate) fn run() -> Result<()> {
    let input = orlop_disk::read_whole(std::io::stdin(), LARGEST)
        .map_err(|error| unknown(format!("reading the options: {error}")))?;
    let options = Options::of(Some(&Any::parse(&input)))?;
    let version = Writer::default().text(1, env!("CARGO_PKG_VERSION")).done();
    let mut info = Writer::default()
        .text(1, "io.containerd.orlop.v1")
        .message(2, &version);
    if !input.is_empty() {
        info = info.message(3, &input);
    }
    let mut command = Command::new(runtime::program(&options.binary_name)?);
    command.arg("features");
    // One too old to say tells nothing.
    if let Ok(features) = crate::program::run(command, LIMIT) {
        let features = Writer::default().text(1, FEATURES).bytes(2, &features);
        info = info.message(4, &features.done());
    }
    print(&info.done())
}
