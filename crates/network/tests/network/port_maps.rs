//! The node's ports that lead to pods, by maps of a table of our own.

use orlop_network::{InProcess, Protocol};
use orlop_testkit::machine::has_program;
use serde_json::{Value, json};

use crate::support::{Node, Pod, filter_rules, mapped, port, sh};

fn conf(name: &str, subnet: &str, backend: Option<&str>) -> String {
    let ranges = json!([[{"subnet": format!("10.{subnet}.0.0/24")}], [{"subnet": format!("fd{subnet}::/64")}]]);
    let bridge = json!({
        "type": "bridge", "bridge": format!("br{subnet}"), "isGateway": true,
        "ipam": {"type": "host-local", "dataDir": "DATA", "ranges": ranges},
    });
    let mut portmap = json!({"type": "portmap", "capabilities": {"portMappings": true}});
    if let Some(backend) = backend {
        portmap["backend"] = json!(backend);
    }
    json!({"cniVersion": "1.0.0", "name": name, "plugins": [bridge, portmap]}).to_string()
}

fn map_at(pod: &mut Pod, host_port: u16, at: &str) {
    let port = port(host_port, 80, Protocol::Tcp, at);
    pod.attachment.port_mappings.push(port);
}

/// The chains of the tables, with their rules.
fn chains() -> String {
    let list = |family: &str| format!("nft list table {family} orlop | sed -n '/chain/,/}}/p'");
    sh(&format!("{}; {}", list("ip"), list("ip6")))
}

#[test]
fn all_pods_share_the_rules() {
    let (node, networks) = nft_node!(&conf("net", "77", None));
    let [mut a, mut b] = ["a", "b"].map(|id| node.pod(id));
    a.map(8080, 80, Protocol::Tcp);
    map_at(&mut b, 8081, "127.0.0.1");
    map_at(&mut b, 8082, "0.0.0.0");
    let network_a = node.attach(&networks, &a);
    let rules = chains();
    assert!(rules.contains("@hostports-at"), "{rules}");
    let network_b = node.attach(&networks, &b);
    assert_eq!(chains(), rules);
    let of_b = [
        "tcp 127.0.0.1 8081 b eth0 : 10.77.0.3 80",
        "tcp 8082 b eth0 : 10.77.0.3 80",
        "tcp 127.0.0.1 8081 b eth0",
        "tcp 8082 b eth0",
    ];
    let both = [
        "tcp 127.0.0.1 8081 b eth0 : 10.77.0.3 80",
        "tcp 8080 a eth0 : 10.77.0.2 80",
        "tcp 8080 a eth0 : fd77::2 80",
        "tcp 8082 b eth0 : 10.77.0.3 80",
        "tcp 127.0.0.1 8081 b eth0",
        "tcp 8080 a eth0",
        "tcp 8080 a eth0",
        "tcp 8082 b eth0",
    ];
    assert_eq!(mapped(), both);
    assert!(!filter_rules().contains("CNI"), "{}", filter_rules());
    node.check(&networks, &b, &network_b);

    node.detach(&networks, &a, &network_a);
    assert_eq!(mapped(), of_b);

    sh("nft delete element ip orlop hostports '{ tcp . 8082 }'");
    let error = node
        .block(networks.check(&b.attachment, &network_b))
        .unwrap_err();
    assert!(
        error
            .with_causes()
            .contains("the nftables maps do not contain all ports"),
        "{error:?}"
    );
    sh("nft add element ip orlop hostports '{ tcp . 8082 comment \"b eth0\" : 10.77.0.3 . 80 }'");
    node.detach(&networks, &b, &network_b);
    assert_eq!(mapped(), Vec::<String>::new());
    assert_eq!(chains(), rules);
}

/// What an earlier version made: a chain for each pod.
#[test]
fn chains_of_an_earlier_version_are_undone() {
    let (node, networks) = nft_node!(&conf("net", "77", Some("iptables")));
    let [mut old, mut new] = ["old", "new"].map(|id| node.pod(id));
    old.map(8080, 80, Protocol::Tcp);
    let mut network = node.attach(&networks, &old);
    assert_eq!(mapped(), Vec::<String>::new());
    let own = |rules: &str| rules.contains("CNI-DN-") && rules.contains("id: \\\"old\\\"");
    assert!(own(&filter_rules()), "{}", filter_rules());
    drop(networks);

    node.write_conf("10-net.conflist", &conf("net", "77", None));
    let networks = node.open(InProcess::Always);
    new.map(8081, 80, Protocol::Tcp);
    node.attach(&networks, &new);
    assert_eq!(mapped().len(), 4);
    // Its record says nothing of that.
    let plugin = &mut network.networks[0].conf["plugins"][1];
    plugin.as_object_mut().unwrap().remove("backend").unwrap();
    node.check(&networks, &old, &network);
    node.detach(&networks, &old, &network);
    let rules = filter_rules();
    assert!(
        !rules.contains("CNI-DN-") && !rules.contains("8080"),
        "{rules}"
    );
    assert_eq!(mapped().len(), 4);
}

/// A DEL may come twice, and late.
#[test]
fn a_port_s_next_owner_keeps_it() {
    let (node, networks) = nft_node!(&conf("net", "77", None));
    let [mut a, mut b] = ["a", "b"].map(|id| node.pod(id));
    a.map(8080, 80, Protocol::Tcp);
    b.map(8080, 80, Protocol::Tcp);
    let network_a = node.attach(&networks, &a);
    node.detach(&networks, &a, &network_a);
    node.attach(&networks, &b);
    let of_b = mapped();
    assert_eq!(of_b.len(), 4);
    node.detach(&networks, &a, &network_a);
    assert_eq!(mapped(), of_b);
}

/// What an administrator, or another network of this name, left behind at the pod's port.
#[test]
fn a_port_left_behind_is_taken_over() {
    let (node, networks) = nft_node!(&conf("net", "77", None));
    let [mut a, mut b] = ["a", "b"].map(|id| node.pod(id));
    a.map(8080, 80, Protocol::Tcp);
    b.map(8081, 80, Protocol::Tcp);
    let network_a = node.attach(&networks, &a);
    sh("nft add element ip orlop hostports '{ tcp . 8081 comment \"gone eth0\" : 10.9.9.9 . 9 }'");
    sh("nft add set ip orlop marked-0123 '{ type inet_proto . inet_service; }'");
    sh("nft add element ip orlop marked-0123 '{ tcp . 8081 comment \"gone eth0\" }'");
    let network_b = node.attach(&networks, &b);
    assert!(!mapped().join("\n").contains("gone"), "{:?}", mapped());
    assert_eq!(mapped().len(), 8);
    for (pod, network) in [(a, network_a), (b, network_b)] {
        node.detach(&networks, &pod, &network);
    }
    assert_eq!(mapped(), Vec::<String>::new());
}

#[test]
fn a_pod_on_two_networks_is_led_to_by_the_first() {
    orlop_testkit::skip_unless!(has_program("nft"));
    let node = Node::new();
    node.write_conf("10-one.conflist", &conf("one", "77", None));
    node.write_conf("20-two.conflist", &conf("two", "78", None));
    let mut config = node.config(InProcess::Always);
    config.max_networks = 2;
    let networks = orlop_network::Networks::open(config).unwrap();
    let mut pod = node.pod("a");
    pod.map(8080, 80, Protocol::Tcp);
    let network = node.attach(&networks, &pod);
    assert_eq!(network.networks.len(), 2);
    let led = [
        "tcp 8080 a eth0 : 10.77.0.2 80",
        "tcp 8080 a eth0 : fd77::2 80",
        "tcp 8080 a eth0",
        "tcp 8080 a eth0",
    ];
    assert_eq!(mapped(), led);
    node.check(&networks, &pod, &network);
    node.detach(&networks, &pod, &network);
    assert_eq!(mapped(), Vec::<String>::new());
}

#[test]
fn more_ports_than_a_message_holds_are_mapped() {
    let (node, networks) = nft_node!(&conf("net", "77", None));
    let mut pod = node.pod("a");
    for port in 0..5000 {
        pod.map(10_000 + port, 80, Protocol::Tcp);
    }
    let mut network = node.attach(&networks, &pod);
    assert_eq!(mapped().len(), 20_000);
    // Nobody has noted its addresses.
    network.networks[0].result = None::<Value>;
    node.detach(&networks, &pod, &network);
    assert_eq!(mapped(), Vec::<String>::new());
}
