//! CNI network of a test: its bridge and its addresses are derived from the test's name.

use std::path::PathBuf;

use serde_json::json;

use crate::scratch::Scratch;

/// Writes the configuration. Without masquerading, as that would leave rules in the host's tables. Peers of the pods
/// are on the same bridge.
pub(super) fn write_cni(scratch: &Scratch) {
    let config = json!({
        "cniVersion": "1.0.0",
        "name": scratch.id(),
        "plugins": [
            {
                "type": "bridge",
                "bridge": scratch.id(),
                "isGateway": true,
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "dataDir": scratch.path("ipam"),
                    "ranges": [[{ "subnet": scratch.subnet() }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
        ],
    });
    let file = conf_dir(scratch).join("10-test.conflist");
    std::fs::write(&file, config.to_string())
        .unwrap_or_else(|e| panic!("writing {}: {e}", file.display()));
}

/// Returns the configuration directory.
pub(super) fn conf_dir(scratch: &Scratch) -> PathBuf {
    scratch.subdir("cni")
}

/// Directory of Debian's CNI plugins.
pub(super) const BIN_DIR: &str = "/usr/lib/cni";
