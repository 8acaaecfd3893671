//! The result of a plugin's ADD, in any version of the specification.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::version::{SpecVersion, UnknownVersion};
use crate::Cidr;

/// A result in the form of the newest version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CniResult {
    /// The interfaces that the plugins created.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub interfaces: Vec<Interface>,
    /// The addresses that the plugins assigned.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub ips: Vec<IpConfig>,
    /// The routes that the plugins created.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub routes: Vec<Route>,
    /// DNS settings that the network suggests.
    #[serde(deserialize_with = "null_is_default")]
    pub dns: Dns,
}

/// A network interface in a result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mac: String,
    /// Its MTU (since 1.1.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The network namespace that contains it; empty for the node's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sandbox: String,
    /// A vhost-user socket (since 1.1.0).
    #[serde(
        rename = "socketPath",
        default,
        skip_serializing_if = "String::is_empty"
    )]
    pub socket_path: String,
    /// The device's PCI identity (since 1.1.0).
    #[serde(rename = "pciID", default, skip_serializing_if = "String::is_empty")]
    pub pci_id: String,
}

/// An address in a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpConfig {
    /// Index of its interface in the result's list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<i64>,
    /// The address.
    pub address: Cidr,
    /// Its gateway.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "empty_is_none"
    )]
    pub gateway: Option<IpAddr>,
}

/// A route in a result or in an address plugin's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The destination.
    pub dst: Cidr,
    /// The gateway; if absent, the gateway of the address.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "empty_is_none"
    )]
    pub gw: Option<IpAddr>,
    /// MTU along the route (since 1.1.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Maximal segment size announced along the route (since 1.1.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advmss: Option<u32>,
    /// Metric (since 1.1.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Routing table (since 1.1.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<u32>,
    /// Scope (since 1.1.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<u32>,
}

/// DNS settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dns {
    /// Name servers.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub nameservers: Vec<String>,
    /// The local domain name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Domains to search.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub search: Vec<String>,
    /// Resolver options.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub options: Vec<String>,
}

impl Dns {
    /// Reports whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A result that cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// The result is not valid JSON, or has a field of the wrong type.
    #[error("it is not a CNI result")]
    Malformed(#[source] serde_json::Error),
    /// The result has an unknown version.
    #[error(transparent)]
    Version(#[from] UnknownVersion),
}

impl CniResult {
    /// Reads a result in any known version; a result without a version counts as `assumed`.
    pub fn parse(value: &Value, assumed: SpecVersion) -> Result<Self, ResultError> {
        if !value.is_object() {
            return Err(ResultError::Malformed(serde::de::Error::custom(
                "not a JSON object",
            )));
        }
        let version = match value.get("cniVersion").and_then(Value::as_str) {
            None | Some("") => assumed,
            Some(text) => text.parse()?,
        };
        if version < SpecVersion::V0_3_0 {
            return Self::from_v0_2(value).map_err(ResultError::Malformed);
        }
        Self::deserialize(value).map_err(ResultError::Malformed)
    }

    /// Writes the result in the form of `version`.
    pub fn to_version(&self, version: SpecVersion) -> Value {
        let mut result = self.clone();
        if version < SpecVersion::V1_1_0 {
            for interface in &mut result.interfaces {
                interface.mtu = None;
                interface.socket_path.clear();
                interface.pci_id.clear();
            }
            for route in &mut result.routes {
                *route = Route::new(route.dst, route.gw);
            }
        }
        let mut value = serde_json::to_value(&result).unwrap_or_else(|_| json!({}));
        if let Value::Object(map) = &mut value {
            map.insert("cniVersion".to_owned(), json!(version));
            if version < SpecVersion::V1_0_0 {
                name_families(map);
            }
        }
        value
    }

    /// 0.1.0 and 0.2.0 have one address per family and no interfaces.
    fn from_v0_2(value: &Value) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Family {
            ip: Cidr,
            #[serde(default, deserialize_with = "empty_is_none")]
            gateway: Option<IpAddr>,
            #[serde(default)]
            routes: Vec<Route>,
        }
        #[derive(Deserialize)]
        struct Old {
            ip4: Option<Family>,
            ip6: Option<Family>,
            #[serde(default)]
            dns: Dns,
        }
        let old = Old::deserialize(value)?;
        let mut result = Self {
            dns: old.dns,
            ..Self::default()
        };
        for family in [old.ip4, old.ip6].into_iter().flatten() {
            result.ips.push(IpConfig {
                interface: None,
                address: family.ip,
                gateway: family.gateway,
            });
            result.routes.extend(family.routes);
        }
        Ok(result)
    }
}

impl Route {
    /// Creates a route with only a destination and a gateway.
    pub fn new(dst: Cidr, gw: Option<IpAddr>) -> Self {
        Self {
            dst,
            gw,
            mtu: None,
            advmss: None,
            priority: None,
            table: None,
            scope: None,
        }
    }
}

/// Before 1.0.0 every address states its family.
fn name_families(result: &mut Map<String, Value>) {
    let Some(Value::Array(ips)) = result.get_mut("ips") else {
        return;
    };
    for ip in ips {
        let v6 = ip
            .get("address")
            .and_then(Value::as_str)
            .is_some_and(|a| a.contains(':'));
        ip["version"] = json!(if v6 { "6" } else { "4" });
    }
}

fn null_is_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: serde::Deserializer<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

fn empty_is_none<'de, D>(deserializer: D) -> Result<Option<IpAddr>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    match Option::<String>::deserialize(deserializer)?.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: Value) -> Result<CniResult, ResultError> {
        CniResult::parse(&value, SpecVersion::V1_0_0)
    }

    #[test]
    fn the_oldest_form_is_read() {
        let result = parse(json!({
            "cniVersion": "0.2.0",
            "ip4": {"ip": "10.0.0.2/24", "gateway": "10.0.0.1", "routes": [{"dst": "0.0.0.0/0"}]},
            "dns": {"nameservers": ["1.1.1.1"]},
        }))
        .unwrap();
        assert_eq!(result.ips[0].address.to_string(), "10.0.0.2/24");
        assert_eq!(result.routes.len(), 1);
        assert_eq!(result.dns.nameservers, ["1.1.1.1"]);
    }

    #[test]
    fn versions_convert_both_ways() {
        let newest = json!({
            "cniVersion": "1.1.0",
            "interfaces": [{"name": "eth0", "mtu": 1400, "sandbox": "/x"}],
            "ips": [{"address": "10.0.0.2/24", "interface": 0}, {"address": "fd00::2/64"}],
            "routes": [{"dst": "0.0.0.0/0", "mtu": 1300}],
        });
        let result = parse(newest).unwrap();
        let old = result.to_version(SpecVersion::V0_4_0);
        assert_eq!(old["ips"][0]["version"], "4");
        assert_eq!(old["ips"][1]["version"], "6");
        assert!(old["interfaces"][0].get("mtu").is_none());
        assert!(old["routes"][0].get("mtu").is_none());
        assert_eq!(parse(old).unwrap().ips, result.ips);
        assert!(
            result.to_version(SpecVersion::V1_0_0)["ips"][0]
                .get("version")
                .is_none()
        );
        assert_eq!(
            result.to_version(SpecVersion::V1_1_0)["routes"][0]["mtu"],
            1300
        );
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(parse(json!({"cniVersion": "9.9.9"})).is_err());
        assert!(parse(json!({"ips": [{"address": "ten"}]})).is_err());
        assert!(parse(json!({"ips": 7})).is_err());
        assert!(parse(json!([])).is_err());
        assert!(
            parse(json!({"ips": null, "dns": null}))
                .unwrap()
                .ips
                .is_empty()
        );
    }
}
