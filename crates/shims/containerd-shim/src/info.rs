//! `-info`: the features of this shim and of the OCI runtime that it would use.

use std::process::Command;
use std::time::Duration;

use orlop_containerd_api::types::{RuntimeInfo, RuntimeVersion};
use orlop_containerd_api::{Any, Message};
use orlop_ttrpc::decode;

use crate::error::{Result, unknown};
use crate::options::Options;
use crate::print::print;
use crate::runtime;

/// Maximum size of the options.
const LARGEST: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(10);
const FEATURES: &str = "types.containerd.io/opencontainers/runtime-spec/1/features/Features";

pub(crate) fn run() -> Result<()> {
    let input = orlop_fs::read_whole(std::io::stdin(), LARGEST)
        .map_err(|error| unknown(format!("reading the options: {error}")))?;
    let given: Any = decode(&input)?;
    let options = Options::of(Some(&given))?;
    let mut command = Command::new(runtime::program(&options.binary_name)?);
    command.arg("features");
    // A runtime without this command has no features to report.
    let features = crate::program::run(command, LIMIT).ok();
    let info = RuntimeInfo {
        name: "io.containerd.orlop.v1".into(),
        version: Some(RuntimeVersion {
            version: env!("CARGO_PKG_VERSION").into(),
        }),
        options: (!input.is_empty()).then_some(given),
        features: features.map(|value| Any {
            type_url: FEATURES.into(),
            value,
        }),
    };
    print(&info.encode_to_vec())
}
