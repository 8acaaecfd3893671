//! Restricts the addresses that a registry may refer to: token servers, redirects, and URLs in manifests. An
//! untrusted registry must not make the node access internal services.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use orlop_pool::{Place, look_up};
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Separate threads for name lookups, because an unresponsive name server blocks them until its timeout.
static LOOKING_UP: Place = Place::new("looking up the hosts of registries", 32, 4, 4096);

/// The reachability of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Zone {
    Public,
    /// A private network of the site, of pods or of services.
    Private,
    /// This machine.
    Loopback,
    /// Link-local, where clouds serve the node's own credentials.
    Link,
}

impl Zone {
    /// Describes the kind of address for messages.
    fn kind(self) -> &'static str {
        match self {
            Self::Public => "a public",
            Self::Private => "a private",
            Self::Loopback => "a loopback",
            Self::Link => "a link-local",
        }
    }
}

/// The zone that a checked host must stay in when it is connected to, because a later lookup may return another
/// address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Within {
    host: String,
    zone: Zone,
}

impl Within {
    #[cfg(test)]
    pub(super) fn public(host: &str) -> Self {
        let host = host.to_owned();
        let zone = Zone::Public;
        Self { host, zone }
    }

    /// Returns the addresses of a host that are allowed.
    fn of(&self, host: &str, addresses: Vec<SocketAddr>) -> io::Result<Vec<SocketAddr>> {
        if host != self.host {
            // Another host name is a proxy.
            return Ok(addresses);
        }
        let is_good = |address: &SocketAddr| zone(address.ip()) <= self.zone;
        let (good, bad): (Vec<_>, Vec<_>) = addresses.into_iter().partition(is_good);
        match bad.first() {
            Some(bad) if good.is_empty() => {
                let (kind, address) = (zone(bad.ip()).kind(), bad.ip());
                let reason =
                    format!("{host} now has {kind} address ({address}), which is not allowed");
                Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
            }
            _ => Ok(good),
        }
    }
}

impl Resolve for Within {
    fn resolve(&self, name: Name) -> Resolving {
        let within = self.clone();
        Box::pin(async move {
            let host = name.as_str();
            let found = look_up(&LOOKING_UP, host, 0).await?;
            let good: Addrs = Box::new(within.of(host, found)?.into_iter());
            Ok(good)
        })
    }
}

/// A resolver without restrictions, for hosts that the node's own configuration names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Anywhere;

impl Resolve for Anywhere {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = look_up(&LOOKING_UP, name.as_str(), 0).await?;
            let found: Addrs = Box::new(found.into_iter());
            Ok(found)
        })
    }
}

/// The rules for addresses that a registry may refer to.
#[derive(Debug, Clone, Default)]
pub(super) struct Reach {
    /// Hosts that any registry may refer to.
    pub(super) internal_hosts: Vec<String>,
}

impl Reach {
    /// Checks whether a registry at `from` may refer to `to`, and returns the allowed zone, or `None` for no
    /// restriction. The error is the reason.
    pub(super) async fn check(&self, from: &Url, to: &Url) -> Result<Option<Within>, String> {
        let host = to.host_str().unwrap_or("");
        let named = self.internal_hosts.iter().any(|name| name == host);
        if named || from.host_str() == Some(host) {
            return Ok(None);
        }
        let addresses = addresses(to).await;
        let addresses = addresses.iter().map(SocketAddr::ip);
        let worst = addresses.max_by_key(|address| zone(*address));
        // A name that cannot be resolved here may be known to the node's proxy.
        let zone = worst.map_or(Zone::Public, zone);
        if let Some(worst) = worst.filter(|_| zone != Zone::Public)
            && !may(home(from).await, zone)
        {
            let kind = zone.kind();
            return Err(format!(
                "{host} has {kind} address ({worst}), and a registry with a more public address \
                 must not refer to it; to allow it, add {host:?} to images.internal_hosts"
            ));
        }
        let host = host.to_owned();
        Ok(Some(Within { host, zone }))
    }
}

/// Returns whether a registry in one zone may refer to hosts in the other.
fn may(from: Zone, to: Zone) -> bool {
    match to {
        Zone::Public => true,
        Zone::Private => from != Zone::Public,
        Zone::Loopback => from == Zone::Loopback,
        Zone::Link => false,
    }
}

/// Returns the zone of a registry. A registry with any public address is public, because it may list internal
/// addresses to gain access to them.
async fn home(url: &Url) -> Zone {
    let zones = addresses(url).await;
    let zones = zones.iter().map(|address| zone(address.ip()));
    zones.min().unwrap_or(Zone::Public)
}

async fn addresses(url: &Url) -> Vec<SocketAddr> {
    let port = url.port_or_known_default().unwrap_or(443);
    let host = url.host_str().unwrap_or("");
    if let Ok(literal) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        return vec![SocketAddr::new(literal, port)];
    }
    let found = look_up(&LOOKING_UP, host, port).await;
    found.unwrap_or_default()
}

fn zone(address: IpAddr) -> Zone {
    match address {
        IpAddr::V4(v4) => zone_v4(v4),
        IpAddr::V6(v6) => zone_v6(v6),
    }
}

/// Cloud metadata services with addresses that are not link-local.
const CLOUD_SERVICES: [Ipv4Addr; 3] = [
    // Azure's WireServer.
    Ipv4Addr::new(168, 63, 129, 16),
    // Alibaba's metadata service.
    Ipv4Addr::new(100, 100, 100, 200),
    // Oracle's first metadata service.
    Ipv4Addr::new(192, 0, 0, 192),
];

fn zone_v4(address: Ipv4Addr) -> Zone {
    let [first, second, ..] = address.octets();
    if address.is_loopback() || first == 0 {
        Zone::Loopback
    } else if address.is_link_local()
        || address.is_broadcast()
        || address.is_multicast()
        || CLOUD_SERVICES.contains(&address)
    {
        Zone::Link
    } else if address.is_private() || (first == 100 && second & 0xc0 == 64) {
        // Also RFC 6598: shared address space of providers, which clusters use for pods.
        Zone::Private
    } else {
        Zone::Public
    }
}

fn zone_v6(address: Ipv6Addr) -> Zone {
    let parts = address.segments();
    // RFC 6052: an IPv4 address behind a translator (NAT64).
    let translated = parts[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
    if let Some(v4) = address.to_ipv4_mapped() {
        zone_v4(v4)
    } else if translated {
        let [.., a, b, c, d] = address.octets();
        zone_v4(Ipv4Addr::new(a, b, c, d))
    } else if address.is_loopback() || address.is_unspecified() {
        Zone::Loopback
    } else if address.is_unicast_link_local()
        || address.is_multicast()
        // The instance metadata service of AWS.
        || parts == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]
    {
        Zone::Link
    } else if address.is_unique_local() {
        Zone::Private
    } else {
        Zone::Public
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[tokio::test]
    async fn a_registry_sends_nobody_where_it_is_not_itself() {
        let reach = Reach::default();
        for (from, to, may) in [
            ("https://1.1.1.1", "https://8.8.8.8/token", true),
            ("https://1.1.1.1", "https://10.96.0.1/token", false),
            ("https://1.1.1.1", "https://100.100.100.200/", false),
            ("https://1.1.1.1", "https://169.254.169.254/", false),
            ("https://1.1.1.1", "http://168.63.129.16/machine", false),
            ("https://1.1.1.1", "http://192.0.0.192/", false),
            ("https://10.0.0.1", "http://168.63.129.16/machine", false),
            ("https://10.0.0.1", "http://100.100.100.200/", false),
            (
                "https://1.1.1.1",
                "https://[::ffff:169.254.169.254]/",
                false,
            ),
            ("https://1.1.1.1", "https://[64:ff9b::a9fe:a9fe]/", false),
            ("https://1.1.1.1", "https://[fd00:ec2::254]/", false),
            ("https://1.1.1.1", "https://127.0.0.1:10250/", false),
            ("https://1.1.1.1", "https://0.0.0.0/", false),
            ("https://1.1.1.1", "https://[::1]/", false),
            ("https://10.0.0.1", "https://10.96.0.1/token", true),
            ("https://10.0.0.1", "https://169.254.169.254/", false),
            ("https://10.0.0.1", "https://127.0.0.1/", false),
            ("http://127.0.0.1:5000", "http://127.0.0.2:5001/token", true),
            ("http://127.0.0.1:5000", "http://169.254.169.254/", false),
            ("http://169.254.1.1", "http://169.254.1.1:81/token", true),
        ] {
            let checked = reach.check(&url(from), &url(to)).await;
            assert_eq!(checked.is_ok(), may, "{from} names {to}: {checked:?}");
            if let Err(reason) = checked {
                assert!(reason.contains("images.internal_hosts"), "{reason}");
            }
        }
    }

    #[test]
    fn a_host_is_asked_only_where_it_was_when_it_was_judged() {
        let to = |addresses: &[&str]| -> Vec<SocketAddr> {
            let parsed = addresses.iter().map(|it| it.parse::<IpAddr>().unwrap());
            parsed.map(|it| SocketAddr::new(it, 0)).collect()
        };
        let within = |zone| Within {
            host: "cdn.example".to_owned(),
            zone,
        };
        let asked = |zone, addresses: &[&str]| within(zone).of("cdn.example", to(addresses));
        let both = ["169.254.169.254", "1.1.1.1"];
        assert_eq!(asked(Zone::Public, &both).unwrap(), to(&["1.1.1.1"]));
        assert_eq!(
            asked(Zone::Private, &["10.0.0.1"]).unwrap(),
            to(&["10.0.0.1"])
        );
        for (zone, bad) in [
            (Zone::Public, "10.0.0.1"),
            (Zone::Public, "127.0.0.1"),
            (Zone::Private, "::1"),
            (Zone::Loopback, "169.254.169.254"),
        ] {
            let refused = asked(zone, &[bad]).unwrap_err().to_string();
            assert!(refused.contains(bad), "{refused}");
        }
        let proxy = within(Zone::Public).of("proxy.example", to(&["10.0.0.1"]));
        assert_eq!(proxy.unwrap(), to(&["10.0.0.1"]));
    }

    #[tokio::test]
    async fn hosts_that_the_administrator_names_may_be_anywhere() {
        let reach = Reach {
            internal_hosts: vec!["10.96.0.1".to_owned()],
        };
        let from = url("https://1.1.1.1");
        reach
            .check(&from, &url("https://10.96.0.1/"))
            .await
            .unwrap();
        reach
            .check(&from, &url("https://10.96.0.2/"))
            .await
            .unwrap_err();
    }
}
