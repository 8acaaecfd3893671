//! Rules for a pod's specification.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::super::names;
use super::super::place::Place;
use super::{container, security, tolerations, volume};

/// Checks a pod's specification.
pub(super) fn check(spec: &Place<'_>) {
    let volumes = volume::check(&spec.at("volumes"));
    container::check_all(spec, &volumes);
    spec.at("restartPolicy")
        .one_of(&["Always", "OnFailure", "Never"]);
    spec.at("terminationGracePeriodSeconds").within(0, i64::MAX);
    spec.at("activeDeadlineSeconds")
        .within(1, i64::from(i32::MAX));
    dns(spec);
    for host in spec.at("hostAliases").items() {
        address(&host.at("ip"), true);
        for name in host.at("hostnames").items() {
            name.must(names::subdomain);
        }
    }
    spec.at("hostname").may(names::label);
    spec.at("subdomain").may(names::label);
    hostname_override(spec);
    spec.at("runtimeClassName").may(names::subdomain);
    for (i, secret) in spec.at("imagePullSecrets").items().iter().enumerate() {
        if secret.at("name").text().is_empty() {
            secret.doubt(format!("secret {i} has no name and is skipped"));
        }
    }
    security::pod(spec);
    container::resources(&spec.at("resources"));
    for (name, amount) in spec.at("overhead").entries() {
        container::amount(name, &amount);
    }
    tolerations::check(&spec.at("tolerations"));
    without_cluster(spec);
}

fn hostname_override(spec: &Place<'_>) {
    let name = spec.at("hostnameOverride");
    name.may(names::subdomain);
    if name.text().len() > 64 {
        name.wrong(
            "must not have more than 64 characters, the longest host name that Linux supports",
        );
    }
    for other in ["setHostnameAsFQDN", "hostNetwork"] {
        if name.is_there() && spec.at(other).is_true() {
            name.wrong(format!("must not be set when {other} is true"));
        }
    }
}

fn dns(spec: &Place<'_>) {
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    spec.at("dnsPolicy").one_of(&policies);
    let config = spec.at("dnsConfig");
    let servers = config.at("nameservers").items();
    if spec.at("dnsPolicy").text() == "None" && servers.is_empty() {
        config
            .at("nameservers")
            .wrong("must contain a server if dnsPolicy is None");
    }
    // The limits of resolv.conf(5), as in Kubernetes.
    if servers.len() > 3 {
        config
            .at("nameservers")
            .wrong("must not have more than 3 servers");
    }
    for server in &servers {
        address(server, true);
    }
    let searches = config.at("searches").items();
    let length: usize = searches.iter().map(|it| it.text().len() + 1).sum();
    if searches.len() > 32 || length > 2048 {
        let text = "must not have more than 32 domains or 2048 characters";
        config.at("searches").wrong(text);
    }
    for search in &searches {
        let bare = search.text().trim_end_matches('.');
        if bare != search.text() || !bare.is_empty() {
            let plain = bare.replace('_', "-");
            if search.text() != "." && names::subdomain(&plain).is_err() {
                search.wrong(format!("{:?} is not a domain name", search.text()));
            }
        }
    }
    for option in config.at("options").items() {
        if option.at("name").text().is_empty() {
            option.at("name").wrong("is missing");
        }
    }
}

/// Checks an IP address.
pub(super) fn address(place: &Place<'_>, required: bool) {
    if place.text().is_empty() {
        if required {
            place.wrong("is missing");
        }
    } else if place.text().parse::<IpAddr>().is_err() {
        place.wrong(format!("{:?} is not an IP address", place.text()));
    }
}

/// Warns about fields that have an effect only in a cluster.
fn without_cluster(spec: &Place<'_>) {
    let os = spec.at("os").at("name");
    os.one_of(&["linux", "windows"]);
    if os.text() == "windows" {
        os.wrong("must be linux, because this node runs Linux");
    }
    for field in ["serviceAccountName", "serviceAccount"] {
        let account = spec.at(field);
        if !matches!(account.text(), "" | "default") {
            account
                .doubt("has no effect, because a node without a cluster has no service accounts");
        }
    }
    for field in ["resourceClaims", "schedulingGates", "readinessGates"] {
        let list = spec.at(field);
        if !list.items().is_empty() {
            list.wrong("needs a cluster; a standalone node does not support this field");
        }
    }
    let affinity = spec.at("affinity").at("nodeAffinity");
    let required = affinity.at("requiredDuringSchedulingIgnoredDuringExecution");
    if required.is_there() {
        required.doubt("has no effect, because the pod runs on the node that has its manifest");
    }
    let mut seen = BTreeSet::new();
    for (key, value) in spec.at("nodeSelector").entries() {
        if let Err(why) = names::qualified(key) {
            value.wrong(format!("the key {key:?} {why}"));
        }
        seen.insert(key);
    }
}
