//! A CNI network of the test's own: its bridge and its addresses carry the test's name.

use std::path::PathBuf;

use serde_json::json;

use crate::scratch::Scratch;

/// Writes the configuration. No masquerading: it would leave rules behind in the host's
/// tables, and what a test talks to is on the same bridge.
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

/// Where the configuration is.
pub(super) fn conf_dir(scratch: &Scratch) -> PathBuf {
    scratch.subdir("cni")
}

/// Where Debian puts the plugins.
pub(super) const BIN_DIR: &str = "/usr/lib/cni";
