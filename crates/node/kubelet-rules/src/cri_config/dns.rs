//! DNS configuration of pods.

use std::net::IpAddr;

use orlop_cri_api::v1;

use crate::pod::{DnsPolicy, Pod};

/// The limits of the C library's resolver.
const MAX_SERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARS: usize = 2048;

/// The resolver configuration of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostResolver {
    /// Servers.
    pub servers: Vec<String>,
    /// Domains to search.
    pub searches: Vec<String>,
    /// Options.
    pub options: Vec<String>,
}

impl HostResolver {
    /// Parses a `resolv.conf`.
    pub fn parse(text: &str) -> Self {
        let mut host = Self::default();
        for line in text.lines() {
            let line = line.split(['#', ';']).next().unwrap_or_default();
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => host.servers.extend(words.next().map(str::to_owned)),
                // The last of these lines counts.
                Some("search") => {
                    host.searches = words.map(|w| w.trim_end_matches('.').to_owned()).collect();
                    host.searches.retain(|domain| !domain.is_empty());
                }
                Some("options") => host.options = words.map(str::to_owned).collect(),
                _ => {}
            }
        }
        host
    }
}

/// The DNS configuration of a pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodResolver {
    /// The configuration for the runtime.
    pub config: v1::DnsConfig,
    /// Whether the pod asks for cluster DNS but the node has no cluster servers, so that it uses
    /// the node's.
    pub without_cluster: bool,
    /// Whether entries beyond the resolver's limits were dropped.
    pub truncated: bool,
}

/// Derives a pod's DNS configuration from its policy, the cluster's servers and domain, and the
/// node's resolver.
pub fn pod_dns(pod: &Pod, servers: &[IpAddr], domain: &str, host: &HostResolver) -> PodResolver {
    let spec = &pod.spec;
    let cluster = match spec.dns_policy {
        DnsPolicy::ClusterFirst => !spec.host_network,
        DnsPolicy::ClusterFirstWithHostNet => true,
        DnsPolicy::Default | DnsPolicy::None => false,
    };
    let mut resolver = PodResolver::default();
    let config = &mut resolver.config;
    if cluster && !servers.is_empty() {
        config.servers = servers.iter().map(IpAddr::to_string).collect();
        if !domain.is_empty() {
            let namespace = &pod.metadata.namespace;
            config.searches = vec![
                format!("{namespace}.svc.{domain}"),
                format!("svc.{domain}"),
                domain.to_owned(),
            ];
        }
        merge(&mut config.searches, &host.searches);
        config.options = vec!["ndots:5".to_owned()];
    } else if spec.dns_policy != DnsPolicy::None {
        resolver.without_cluster = cluster;
        config.servers.clone_from(&host.servers);
        config.searches.clone_from(&host.searches);
        config.options.clone_from(&host.options);
    }
    if let Some(own) = &spec.dns_config {
        merge(&mut config.servers, &own.nameservers);
        merge(&mut config.searches, &own.searches);
        for option in &own.options {
            let same = |text: &String| text.split(':').next() == Some(option.name.as_str());
            config.options.retain(|text| !same(text));
            config.options.push(match &option.value {
                Some(value) => format!("{}:{value}", option.name),
                None => option.name.clone(),
            });
        }
    }
    let before = (config.servers.len(), config.searches.len());
    config.servers.truncate(MAX_SERVERS);
    config.searches.truncate(MAX_SEARCHES);
    while config.searches.join(" ").len() > MAX_SEARCH_CHARS {
        config.searches.pop();
    }
    resolver.truncated = before != (config.servers.len(), config.searches.len());
    resolver
}

fn merge(into: &mut Vec<String>, more: &[String]) {
    for text in more {
        if !into.contains(text) {
            into.push(text.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_policy_has_its_servers() {
        let host = HostResolver::parse(
            "# local\nnameserver 192.0.2.1\nsearch old.example\nsearch example. lan\noptions rotate timeout:2\n",
        );
        let rows = [
            // policy, host network, own configuration → servers, searches, options
            (
                json!({}),
                "10.96.0.10",
                "ns.svc.c.local svc.c.local c.local example lan",
                "ndots:5",
            ),
            (
                json!({"hostNetwork": true}),
                "192.0.2.1",
                "example lan",
                "rotate timeout:2",
            ),
            (
                json!({"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet"}),
                "10.96.0.10",
                "ns.svc.c.local svc.c.local c.local example lan",
                "ndots:5",
            ),
            (
                json!({"dnsPolicy": "Default"}),
                "192.0.2.1",
                "example lan",
                "rotate timeout:2",
            ),
            (
                json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["a.b"],
                       "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]}}),
                "1.1.1.1",
                "a.b",
                "ndots:2 edns0",
            ),
            (
                json!({"dnsConfig": {"nameservers": ["10.96.0.10", "1.1.1.1"], "options": [{"name": "ndots", "value": "1"}]}}),
                "10.96.0.10 1.1.1.1",
                "ns.svc.c.local svc.c.local c.local example lan",
                "ndots:1",
            ),
        ];
        for (spec, servers, searches, options) in rows {
            let pod: Pod =
                serde_json::from_value(json!({"metadata": {"namespace": "ns"}, "spec": spec}))
                    .unwrap();
            let dns = pod_dns(&pod, &["10.96.0.10".parse().unwrap()], "c.local", &host);
            assert_eq!(dns.config.servers.join(" "), servers, "{spec}");
            assert_eq!(dns.config.searches.join(" "), searches, "{spec}");
            assert_eq!(dns.config.options.join(" "), options, "{spec}");
            assert!(!dns.without_cluster && !dns.truncated);
        }
        let none = pod_dns(&Pod::default(), &[], "c.local", &host);
        assert_eq!(none.config.servers, ["192.0.2.1"]);
        assert!(none.without_cluster);
    }

    #[test]
    fn what_no_resolver_reads_is_left_out() {
        let mut pod = Pod::default();
        pod.spec.dns_policy = DnsPolicy::None;
        pod.spec.dns_config = Some(crate::pod::PodDns {
            nameservers: (0..5).map(|i| format!("10.0.0.{i}")).collect(),
            ..Default::default()
        });
        let dns = pod_dns(&pod, &[], "", &HostResolver::default());
        assert_eq!(dns.config.servers.len(), 3);
        assert!(dns.truncated);
    }
}
