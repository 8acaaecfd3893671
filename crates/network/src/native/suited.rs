//! Selection of the networks that can run in process.

use std::path::Path;

use serde_json::{Map, Value};

use super::NativePlugin;
use super::ipam::IpamKind;
use crate::cni::{NetworkConf, SpecVersion};

/// Returns the first plugin of a network that must run as a program, and the reason.
///
/// `pinned` lists the types whose programs the administrator requires.
pub(crate) fn first_unsuited(network: &NetworkConf, pinned: &[String]) -> Option<(String, String)> {
    if network.cni_version < SpecVersion::V0_3_0 {
        let why = format!(
            "CNI version {} does not support plugin chains",
            network.cni_version
        );
        return Some((network.plugins.first()?.kind.clone(), why));
    }
    network.plugins.iter().find_map(|plugin| {
        let why = pin(&plugin.kind, &plugin.raw, pinned);
        let why = why.or_else(|| problem(&plugin.kind, &plugin.raw))?;
        Some((plugin.kind.clone(), why))
    })
}

/// Returns the reason, if the administrator pinned the plugin or the address plugin that it calls.
fn pin(kind: &str, conf: &Map<String, Value>, pinned: &[String]) -> Option<String> {
    let ipam = address_plugin(conf);
    let found = pinned
        .iter()
        .find(|one| *one == kind || Some(one.as_str()) == ipam)?;
    Some(format!("the program {found} is pinned"))
}

fn address_plugin(conf: &Map<String, Value>) -> Option<&str> {
    conf.get("ipam")?.get("type")?.as_str()
}

/// The administrator's list of settings that pods may change. Its patterns are supported by the program only.
const TUNING_ALLOWLIST: &str = "/etc/cni/tuning/allowlist.conf";

/// Keys that any plugin may have.
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

/// Returns the reason why a configuration cannot run in process. An unknown key may be one that the program supports.
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
            "vlan",
            "vlanTrunk",
            "preserveDefaultVlan",
            "macspoofchk",
            "ipMasqBackend",
        ],
        NativePlugin::Firewall => &["backend", "iptablesAdminChainName", "ingressPolicy"],
        NativePlugin::Loopback => &[],
        NativePlugin::Portmap => &["snat", "markMasqBit", "masqAll", "backend"],
        NativePlugin::Ptp => &["ipMasq", "ipMasqBackend", "mtu"],
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
        NativePlugin::Bridge | NativePlugin::Ptp
            if !["", "iptables"].contains(&text("ipMasqBackend")) =>
        {
            Some(format!(
                "the backend {:?} is not known",
                text("ipMasqBackend")
            ))
        }
        NativePlugin::Bridge | NativePlugin::Ptp => {
            let ipam = address_plugin(conf);
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
        first_unsuited(&NetworkConf::from_list(conf).unwrap(), &[])
    }

    #[test]
    fn a_pinned_program_is_run() {
        let ipam = json!({"type": "host-local", "subnet": "10.0.0.0/24"});
        let plugins = json!([{"type": "bridge", "ipam": ipam}, {"type": "firewall"}]);
        let conf = json!({"cniVersion": "1.0.0", "name": "n", "plugins": plugins});
        let conf = NetworkConf::from_list(conf).unwrap();
        let why = |pinned: &str| first_unsuited(&conf, &[pinned.to_owned()]);
        let pinned = |plugin: &str, what: &str| {
            Some((plugin.to_owned(), format!("the program {what} is pinned")))
        };
        assert_eq!(why("firewall"), pinned("firewall", "firewall"));
        assert_eq!(why("host-local"), pinned("bridge", "host-local"));
        assert_eq!(why("portmap"), None);
    }

    #[test]
    fn only_what_is_wholly_understood_is_done_in_process() {
        let ipam = json!({"type": "host-local", "subnet": "10.0.0.0/24"});
        let bridge = json!({"type": "bridge", "ipMasq": true, "macspoofchk": true, "vlan": 7,
            "vlanTrunk": [{"id": 8}], "preserveDefaultVlan": true, "ipam": ipam});
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
                json!({"type": "bridge", "ipam": ipam, "ipMasqBackend": "nftables"}),
                "nftables",
            ),
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
