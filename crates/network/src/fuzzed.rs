//! Bounded fuzzing of plugin results and network configurations.

use orlop_testkit::Fuzz;
use serde_json::{Value, json};

use crate::cni::{CniResult, NetworkConf, SpecVersion};

/// The reader refuses a result, or the result is unchanged after a round trip through its version.
#[test]
fn no_plugin_s_result_breaks_the_reader() {
    let new = json!({
        "cniVersion": "1.0.0",
        "interfaces": [{"name": "eth0", "mac": "00:11:22:33:44:55", "sandbox": "/run/netns/x"}],
        "ips": [{"address": "10.1.2.3/24", "gateway": "10.1.2.1", "interface": 0},
                {"address": "fd00::2/64"}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.2.1", "mtu": 1400}],
        "dns": {"nameservers": ["1.1.1.1"], "search": ["x"], "options": ["ndots:5"]},
    });
    let old = json!({
        "cniVersion": "0.2.0",
        "ip4": {"ip": "10.0.0.2/24", "gateway": "10.0.0.1", "routes": [{"dst": "0.0.0.0/0"}]},
        "ip6": {"ip": "fd00::2/64"},
    });
    Fuzz::new()
        .example(new.to_string())
        .example(old.to_string())
        .words([
            "null",
            "{}",
            "[]",
            "-1",
            "1e999",
            "\"\"",
            "\"0.3.1\"",
            "/33",
            "::",
            "\"version\":\"4\"",
        ])
        .words([
            "\"ips\":",
            "\"routes\":",
            "\"interface\":",
            "\\ud800",
            "[[[[[[",
        ])
        .run(|input| {
            let Ok(value) = serde_json::from_slice::<Value>(input) else {
                return;
            };
            if let Ok(result) = CniResult::parse(&value, SpecVersion::V1_0_0) {
                let written = result.to_version(SpecVersion::V1_0_0);
                let again = CniResult::parse(&written, SpecVersion::V1_0_0);
                assert!(again.is_ok(), "{written} is no result any more: {again:?}");
            }
        });
}

/// The reader accepts or refuses a configuration without a panic.
#[test]
fn no_configuration_breaks_the_reader() {
    let list = json!({
        "cniVersion": "1.1.0", "cniVersions": ["0.4.0", "1.0.0"], "name": "net", "disableCheck": true,
        "plugins": [
            {"type": "bridge", "bridge": "br0", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/16"}]]}},
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    Fuzz::new()
        .example(list.to_string())
        .example(json!({"cniVersion": "0.4.0", "name": "one", "type": "ptp"}).to_string())
        .words([
            "null",
            "{}",
            "[]",
            "\"../x\"",
            "\"type\":",
            "\"plugins\":",
            "\"\\u0000\"",
            "[[[[",
        ])
        .run(|input| {
            if let Ok(conf) = NetworkConf::from_bytes(input, None) {
                assert!(!conf.plugins.is_empty());
            }
        });
}
