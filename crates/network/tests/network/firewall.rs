//! Rules that let pods' packets through, in a chain that all pods share.

use orlop_network::{InProcess, Networks};

use crate::support::{Node, filter_rules, noted, sh};

const CONF: &str = r#"{
    "cniVersion": "1.0.0", "name": "net",
    "plugins": [
        {"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": {
            "type": "host-local", "dataDir": "DATA",
            "ranges": [[{"subnet": "10.77.0.0/29"}], [{"subnet": "fd77::/64"}]]}},
        {"type": "firewall"}
    ]}"#;

fn node() -> (Node, Networks) {
    Node::with(CONF)
}

/// How many rules there are about an address.
fn rules_about(address: &str) -> usize {
    let rules = filter_rules();
    let about = rules.lines().filter(|line| {
        let mut words = line.split([' ', '/']);
        line.starts_with("-A CNI-FORWARD ") && words.any(|word| word == address)
    });
    about.count()
}

#[test]
fn a_pod_s_rules_go_and_its_neighbours_stay() {
    let (node, networks) = nft_node!(CONF);
    let [a, b] = ["a", "b"].map(|id| node.pod(id));
    let network_a = node.attach(&networks, &a);
    let network_b = node.attach(&networks, &b);
    let counts = || ["10.77.0.2", "fd77::2", "10.77.0.3", "fd77::3"].map(rules_about);
    assert_eq!(counts(), [2; 4], "{}", filter_rules());
    assert_eq!(noted().len(), 4);
    node.detach(&networks, &a, &network_a);
    assert_eq!(counts(), [0, 0, 2, 2], "{}", filter_rules());
    assert_eq!(noted().len(), 2);
    node.detach(&networks, &b, &network_b);
    assert_eq!(counts(), [0; 4], "{}", filter_rules());
    assert_eq!(noted(), Vec::<String>::new());
}

/// A DEL may come twice, and late.
#[test]
fn an_address_s_next_owner_keeps_its_rules() {
    let (node, networks) = nft_node!(CONF);
    let pods: Vec<_> = (0..6).map(|n| node.pod(&format!("pod{n}"))).collect();
    let attach = |n: usize| {
        node.block(networks.attach(pods[n].attachment.clone()))
            .unwrap()
    };
    let first = attach(0);
    node.block(networks.detach(&pods[0].attachment, Some(&first)))
        .unwrap();
    // The addresses go round.
    let taken = (1..6).find(|n| attach(*n).primary_ip() == first.primary_ip());
    assert!(taken.is_some());
    node.block(networks.detach(&pods[0].attachment, Some(&first)))
        .unwrap();
    assert_eq!(rules_about("10.77.0.2"), 2, "{}", filter_rules());
}

/// What an earlier version made, or a crash left: nobody has noted which rules they are. And what an
/// administrator has saved and restored bears other numbers than those noted.
#[test]
fn rules_that_are_not_those_noted_are_found() {
    let (node, networks) = nft_node!(CONF);
    for change in [
        "nft flush set ip orlop forwarded",
        "iptables-save -t filter | iptables-restore -T filter",
        "iptables-save -t filter > saved; iptables -F CNI-FORWARD; \
         iptables -A CNI-FORWARD -s 10.1.1.1 -j ACCEPT; iptables-restore -n saved; rm saved",
        "nft delete table ip orlop",
    ] {
        let [a, b] = ["a", "b"].map(|id| node.pod(id));
        let network_a = node.attach(&networks, &a);
        let network_b = node.attach(&networks, &b);
        let own = [&network_a, &network_b].map(|network| network.primary_ip().unwrap().to_string());
        sh(&format!("cd {}; {change}", node.dir.path().display()));
        let before = rules_about(&own[1]);
        assert!(before >= 2, "{change}: {}", filter_rules());
        node.detach(&networks, &a, &network_a);
        assert_eq!(rules_about(&own[0]), 0, "{change}: {}", filter_rules());
        assert_eq!(rules_about(&own[1]), before, "{change}: {}", filter_rules());
        node.detach(&networks, &b, &network_b);
        assert_eq!(rules_about(&own[1]), 0, "{change}: {}", filter_rules());
    }
    assert_eq!(noted(), Vec::<String>::new());
}

#[test]
fn the_ways_to_the_chains_are_made_once_and_again_when_they_are_gone() {
    let (node, networks) = node();
    // An administrator has filled it before there was any pod.
    sh("iptables -N CNI-ADMIN; iptables -A CNI-ADMIN -s 10.1.1.1 -j DROP");
    let ways = || {
        let rules = filter_rules();
        let v4 = rules.split("-A IPv6:").next().unwrap();
        [" CNI-FORWARD", " CNI-ADMIN", " OTHER"].map(|to| {
            v4.lines()
                .filter(|line| line.ends_with(&format!("-j{to}")))
                .count()
        })
    };
    for id in ["a", "b"] {
        let pod = node.pod(id);
        node.attach(&networks, &pod);
        assert_eq!(ways(), [1, 1, 0], "{}", filter_rules());
    }
    sh("iptables -F FORWARD");
    let pod = node.pod("c");
    node.attach(&networks, &pod);
    assert_eq!(ways(), [1, 1, 0], "{}", filter_rules());
    // Another network has another chain, which has been filled, too.
    sh("iptables -N OTHER; iptables -A OTHER -s 10.1.1.1 -j DROP");
    let other = r#""type": "firewall", "iptablesAdminChainName": "OTHER""#;
    node.write_conf(
        "10-net.conflist",
        &CONF.replace(r#""type": "firewall""#, other),
    );
    let networks = node.open(InProcess::Always);
    for id in ["d", "e"] {
        let pod = node.pod(id);
        node.attach(&networks, &pod);
        assert_eq!(ways(), [1, 1, 1], "{}", filter_rules());
    }
}
