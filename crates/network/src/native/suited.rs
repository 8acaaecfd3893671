//! Which networks can be done in process.

use std::path::Path;

use serde_json::{Map, Value};

use super::NativePlugin;
use super::ipam::IpamKind;
use crate::cni::{NetworkConf, SpecVersion};

/// The first plugin of a network that must be run as a program, and why.
pub(crate) fn first_unsuited(network: &NetworkConf) -> Option<(String, String)> {
    if network.cni_version < SpecVersion::V0_3_0 {
        let why = format!("CNI version {} knows no chains", network.cni_version);
        return Some((network.plugins.first()?.kind.clone(), why));
    }
    network
        .plugins
        .iter()
        .find_map(|plugin| Some((plugin.kind.clone(), problem(&plugin.kind, &plugin.raw)?)))
}

/// The administrator's list of settings pods may change: patterns, which
/// only the program knows how to read.
const TUNING_ALLOWLIST: &str = "/etc/cni/tuning/allowlist.conf";

/// Keys any plugin may have.
const COMMON: [&str; 8] = [
    "args",
    "capabilities",
    "cniVersion",
    "dns",
    "ipam",
    "name",
    "prevResult",
    "type",
];

/// A key this implementation does not know could be one the program does:
/// then only the program will do.
fn problem(kind: &str, conf: &Map<String, Value>) -> Option<String> {
    let Some(plugin) = NativePlugin::named(kind) else {
        return Some("it is not a standard plugin".to_owned());
    };
    let known: &[&str] = match plugin {
        NativePlugin::Bandwidth => &["ingressRate", "ingressBurst", "egressRate", "egressBurst"],
        NativePlugin::Bridge => &[
            "bridge",
            "isGateway",
            "isDefaultGateway",
            "forceAddress",
            "ipMasq",
            "mtu",
            "hairpinMode",
            "promiscMode",
            "enabledad",
            "portIsolation",
        ],
        NativePlugin::Firewall => &["backend", "iptablesAdminChainName", "ingressPolicy"],
        NativePlugin::Loopback => &[],
        NativePlugin::Portmap => &["snat", "markMasqBit", "masqAll", "backend"],
        NativePlugin::Ptp => &["ipMasq", "mtu"],
        NativePlugin::Tuning => &[
            "sysctl", "mac", "mtu", "promisc", "allmulti", "txQLen", "dataDir",
        ],
    };
    let set = |value: &Value| !matches!(value, Value::Null | Value::Bool(false)) && *value != 0;
    let unknown = conf.iter().find(|(key, value)| {
        set(value) && !COMMON.contains(&key.as_str()) && !known.contains(&key.as_str())
    });
    if let Some((key, _)) = unknown {
        return Some(format!("the key {key:?} is not known"));
    }
    let text = |key: &str| conf.get(key).and_then(Value::as_str).unwrap_or_default();
    match plugin {
        NativePlugin::Bridge | NativePlugin::Ptp => {
            let ipam = conf
                .get("ipam")
                .and_then(|ipam| ipam.get("type"))
                .and_then(Value::as_str);
            match ipam.and_then(IpamKind::named) {
                Some(_) => None,
                None => Some(format!(
                    "the address plugin {:?} is not known",
                    ipam.unwrap_or("")
                )),
            }
        }
        NativePlugin::Portmap | NativePlugin::Firewall
            if !["", "iptables"].contains(&text("backend")) =>
        {
            Some(format!("the backend {:?} is not known", text("backend")))
        }
        NativePlugin::Firewall if !["", "open"].contains(&text("ingressPolicy")) => Some(format!(
            "the ingress policy {:?} is not known",
            text("ingressPolicy")
        )),
        NativePlugin::Tuning if Path::new(TUNING_ALLOWLIST).exists() => {
            Some(format!("{TUNING_ALLOWLIST} restricts it"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn unsuited(plugins: Value) -> Option<(String, String)> {
        let conf = json!({"cniVersion": "1.0.0", "name": "n", "plugins": plugins});
        first_unsuited(&NetworkConf::from_list(conf).unwrap())
    }

    #[test]
    fn only_what_is_wholly_understood_is_done_in_process() {
        let ipam = json!({"type": "host-local", "subnet": "10.0.0.0/24"});
        let bridge = json!({"type": "bridge", "ipMasq": true, "macspoofchk": false, "ipam": ipam});
        let portmap =
            json!({"type": "portmap", "capabilities": {"portMappings": true}, "snat": true});
        assert_eq!(unsuited(json!([bridge, portmap])), None);
        for (plugin, why) in [
            (json!({"type": "calico"}), "not a standard plugin"),
            (
                json!({"type": "bridge", "ipam": {"type": "dhcp"}}),
                "\"dhcp\"",
            ),
            (
                json!({"type": "bridge", "ipam": ipam, "futureKey": 1}),
                "futureKey",
            ),
            (
                json!({"type": "bridge", "ipam": ipam, "macspoofchk": true}),
                "macspoofchk",
            ),
            (json!({"type": "bridge", "ipam": ipam, "vlan": 7}), "vlan"),
            (
                json!({"type": "firewall", "backend": "firewalld"}),
                "firewalld",
            ),
            (
                json!({"type": "portmap", "conditionsV4": ["-s", "1.1.1.1"]}),
                "conditionsV4",
            ),
        ] {
            let (_, said) = unsuited(json!([plugin])).unwrap();
            assert!(said.contains(why), "{said}");
        }
    }
}
