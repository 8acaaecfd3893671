//! Hosts files and host names of pods.

use std::fmt::Write as _;
use std::net::IpAddr;

use crate::pod::Pod;

const HEADER: &str = "# Kubernetes-managed hosts file.\n";

/// Builds the hosts file of a pod with its own network.
pub fn hosts_file(pod: &Pod, ips: &[IpAddr], domain: &str) -> String {
    let mut text = HEADER.to_owned();
    text.push_str(
        "127.0.0.1\tlocalhost\n\
         ::1\tlocalhost ip6-localhost ip6-loopback\n\
         fe00::\tip6-localnet\n\
         fe00::\tip6-mcastprefix\n\
         fe00::1\tip6-allnodes\n\
         fe00::2\tip6-allrouters\n",
    );
    let name = host_name(pod);
    for ip in ips {
        let _ = match full_name(pod, domain) {
            Some(full) => writeln!(text, "{ip}\t{full}\t{name}"),
            None => writeln!(text, "{ip}\t{name}"),
        };
    }
    text + &aliases(pod)
}

/// Builds the hosts file of a host network pod: the node's file and the pod's aliases.
pub fn node_hosts_file(pod: &Pod, of_node: &str) -> String {
    let mut text = "# Kubernetes-managed hosts file (host network).\n".to_owned();
    text.push_str(of_node);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text + &aliases(pod)
}

/// Returns the pod's host name: its own choice or its name, cut to the limit of Linux.
pub fn host_name(pod: &Pod) -> String {
    let own = [&pod.spec.hostname_override, &pod.spec.hostname];
    let own = own.into_iter().find(|name| !name.is_empty());
    truncated(own.unwrap_or(&pod.metadata.name))
}

/// Returns the pod's name in the cluster's domain, if it has a subdomain.
pub fn full_name(pod: &Pod, domain: &str) -> Option<String> {
    let subdomain = &pod.spec.subdomain;
    let is_own = !pod.spec.hostname_override.is_empty();
    if is_own || subdomain.is_empty() || domain.is_empty() {
        return None;
    }
    let (name, namespace) = (host_name(pod), &pod.metadata.namespace);
    Some(format!("{name}.{subdomain}.{namespace}.svc.{domain}"))
}

/// Cuts a host name to the limit of Linux, without a separator at its end.
pub(super) fn truncated(name: &str) -> String {
    const MAX: usize = 63;
    let cut: String = name.chars().take(MAX).collect();
    if cut.len() == name.len() {
        cut
    } else {
        cut.trim_end_matches(['-', '.']).to_owned()
    }
}

fn aliases(pod: &Pod) -> String {
    if pod.spec.host_aliases.is_empty() {
        return String::new();
    }
    let mut text = "\n# Entries added by HostAliases.\n".to_owned();
    for alias in &pod.spec.host_aliases {
        let _ = writeln!(text, "{}\t{}", alias.ip, alias.hostnames.join("\t"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_knows_itself_and_its_aliases() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web-0", "namespace": "shop"},
            "spec": {"subdomain": "web", "hostAliases": [{"ip": "192.0.2.7", "hostnames": ["db", "db.lan"]}]},
        }))
        .unwrap();
        let text = hosts_file(&pod, &["10.0.0.5".parse().unwrap()], "cluster.local");
        assert!(
            text.contains("\n10.0.0.5\tweb-0.web.shop.svc.cluster.local\tweb-0\n"),
            "{text}"
        );
        assert!(text.ends_with("\n192.0.2.7\tdb\tdb.lan\n"), "{text}");
        let mut own = pod.clone();
        "db.example.org".clone_into(&mut own.spec.hostname_override);
        assert_eq!(host_name(&own), "db.example.org");
        assert_eq!(full_name(&own, "cluster.local"), None);
        assert!(node_hosts_file(&pod, "127.0.0.1 localhost").contains("127.0.0.1 localhost\n\n#"));
    }
}
