//! What pods are attached for: packets go where they should.

use std::process::{Command, Stdio};
use std::time::Duration;

use orlop_network::{InProcess, Networks, Protocol};
use orlop_testkit::process::Killed;

use crate::support::{self, Node, Pod, by_chains, port, sh, succeeds};

const CONF: &str = r#"{
    "cniVersion": "1.0.0", "name": "net",
    "plugins": [
        {"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
         "ipam": {
            "type": "host-local", "dataDir": "DATA",
            "ranges": [[{"subnet": "10.77.0.0/24"}], [{"subnet": "fd77::/64"}]],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
        {"type": "portmap", "capabilities": {"portMappings": true}},
        {"type": "firewall"}
    ]}"#;

/// A server in a pod that answers every connection with who asks.
fn serve(pod: &Pod, listen: &str) -> Killed {
    let command = pod.command(&format!(
        "socat {listen},fork,reuseaddr SYSTEM:'echo from $SOCAT_PEERADDR'"
    ));
    let child = Command::new("sh")
        .args(["-c", &format!("exec {command}")])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Killed(child);
    let port = listen.split([':', ',']).nth(1).unwrap();
    for _ in 0..250 {
        if pod.sh("ss -Hlntu").contains(&format!(":{port} ")) {
            return server;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no server on {listen}");
}

fn node() -> (Node, Networks) {
    Node::with(CONF)
}

fn ask(address: &str) -> String {
    format!("timeout 5 socat -T2 - {address} </dev/null")
}

#[test]
fn pods_reach_each_other_the_node_and_through_it_the_outside() {
    let (node, networks) = node();
    let [a, b] = ["a", "b"].map(|id| node.pod(id));
    let network_a = node.attach(&networks, &a);
    let network_b = node.attach(&networks, &b);
    for ip in network_b.ips.iter().map(ToString::to_string) {
        a.sh(&format!("busybox ping -c1 -W5 {ip}"));
    }
    a.sh("busybox ping -c1 -W5 10.77.0.1");
    a.sh("busybox ping -c1 -W5 fd77::1");
    for ip in network_a.ips.iter().map(ToString::to_string) {
        sh(&format!("busybox ping -c1 -W5 {ip}"));
    }

    let outside = support::outside(&node);
    sh("ip -6 addr add fd50::1/64 dev out0 nodad");
    outside.sh("ip -6 addr add fd50::2/64 dev out1 nodad");
    // The node forwards nothing but what the pods' rules let through.
    sh("iptables -P FORWARD DROP; ip6tables -P FORWARD DROP");
    let _v4 = serve(&outside, "TCP4-LISTEN:7000");
    let _v6 = serve(&outside, "TCP6-LISTEN:7001");
    assert_eq!(
        a.sh(&ask("TCP4:192.168.50.2:7000")).trim(),
        "from 192.168.50.1"
    );
    let answer = a.sh(&ask("TCP6:[fd50::2]:7001"));
    assert!(
        answer.contains("0050:0000") || answer.contains("fd50"),
        "{answer}"
    );

    node.detach(&networks, &a, &network_a);
    assert!(
        !succeeds(&a.command(&ask("TCP4:192.168.50.2:7000"))),
        "a detached pod is cut off"
    );
}

#[test]
fn mapped_ports_lead_to_the_pod_from_everywhere() {
    lead_from_everywhere(CONF);
}

#[test]
fn ports_mapped_by_chains_lead_to_the_pod_from_everywhere() {
    lead_from_everywhere(&by_chains(CONF));
}

fn lead_from_everywhere(conf: &str) {
    let (node, networks) = Node::with(conf);
    let [mut web, client] = ["web", "client"].map(|id| node.pod(id));
    web.map(8080, 80, Protocol::Tcp);
    web.map(5353, 53, Protocol::Udp);
    let network = node.attach(&networks, &web);
    node.attach(&networks, &client);
    let _tcp = serve(&web, "TCP6-LISTEN:80,ipv6only=0");
    let _udp = serve(&web, "UDP4-LISTEN:53");

    assert!(
        sh(&ask("TCP4:127.0.0.1:8080")).contains("from"),
        "the node's loopback"
    );
    assert!(
        sh(&ask("TCP4:10.77.0.1:8080")).contains("from"),
        "the node's address"
    );
    assert!(
        sh(&ask("TCP6:[fd77::1]:8080")).contains("from"),
        "the node's IPv6 address"
    );
    assert!(
        client.sh(&ask("TCP4:10.77.0.1:8080")).contains("from"),
        "a neighbour"
    );
    assert!(
        web.sh(&ask("TCP4:10.77.0.1:8080")).contains("from"),
        "the pod itself"
    );
    let udp = "sh -c 'echo hello | timeout 5 socat -T1 - UDP4:127.0.0.1:5353'";
    // A busy machine answers later than the client waits.
    assert!((0..10).any(|_| sh(udp).contains("from")), "UDP");

    node.detach(&networks, &web, &network);
    assert!(
        !succeeds(&ask("TCP4:10.77.0.1:8080,connect-timeout=1")),
        "the port is closed again"
    );
}

/// CVE-2025-67499: a mapped port is the node's, and not one of each machine that pods talk to.
#[test]
fn a_mapped_port_takes_no_packets_to_other_machines() {
    for conf in [CONF.to_owned(), by_chains(CONF)] {
        let (node, networks) = Node::with(&conf);
        let [mut web, client] = ["web", "client"].map(|id| node.pod(id));
        web.map(8080, 80, Protocol::Tcp);
        node.attach(&networks, &web);
        node.attach(&networks, &client);
        let outside = outside(&node);
        let _web = serve(&web, "TCP4-LISTEN:80");
        let _meant = serve(&outside, "TCP4-LISTEN:8080");
        let answer = client.sh(&ask("TCP4:192.168.50.2:8080"));
        assert_eq!(answer.trim(), "from 192.168.50.1", "{conf}");
    }
}

/// A machine outside that knows the way to the node, and through it to the pods.
fn outside(node: &Node) -> Pod {
    let outside = support::outside(node);
    outside.sh("ip route add default via 192.168.50.1");
    outside
}

#[test]
fn a_port_of_one_address_leads_nowhere_at_the_others() {
    let (node, networks) = node();
    let mut pod = node.pod("web");
    let outside = outside(&node);
    pod.attachment.port_mappings = vec![
        port(8080, 80, Protocol::Tcp, "127.0.0.1"),
        port(8080, 81, Protocol::Tcp, "192.168.50.1"),
        port(8080, 80, Protocol::Tcp, "fd77::1"),
        port(8081, 80, Protocol::Tcp, "0.0.0.0"),
    ];
    let network = node.attach(&networks, &pod);
    let _first = serve(&pod, "TCP6-LISTEN:80,ipv6only=0");
    let _second = serve(&pod, "TCP4-LISTEN:81");
    for (asked, answered) in [
        ("TCP4:127.0.0.1:8080", "from"),
        ("TCP4:192.168.50.1:8080", "from"),
        ("TCP6:[fd77::1]:8080", "from"),
        ("TCP4:10.77.0.1:8081", "from"),
    ] {
        let answer = sh(&ask(asked));
        assert!(answer.contains(answered), "{asked}: {answer}");
    }
    for closed in ["TCP4:10.77.0.1:8080", "TCP6:[fd77::1]:8081"] {
        let asked = ask(&format!("{closed},connect-timeout=1"));
        assert!(!succeeds(&asked), "{closed}");
    }
    // Who comes from outside is seen as who it is; a neighbour's answers come back over the node.
    let asked = outside.sh(&ask("TCP4:192.168.50.1:8080"));
    assert_eq!(asked.trim(), "from 192.168.50.2");
    let neighbour = node.pod("neighbour");
    node.attach(&networks, &neighbour);
    let asked = neighbour.sh(&ask("TCP4:192.168.50.1:8080"));
    assert_eq!(asked.trim(), "from 10.77.0.1");
    // What leads nowhere is not touched on its way.
    let _node = Command::new("sh")
        .args(["-c", "exec socat TCP4-LISTEN:8080,bind=10.77.0.1,reuseaddr SYSTEM:'echo node $SOCAT_PEERADDR'"])
        .spawn()
        .map(Killed)
        .unwrap();
    while !sh("ss -Hlnt").contains("10.77.0.1:8080 ") {
        std::thread::sleep(Duration::from_millis(20));
    }
    let asked = neighbour.sh(&ask("TCP4:10.77.0.1:8080"));
    assert_eq!(asked.trim(), "node 10.77.0.3");
    node.detach(&networks, &pod, &network);
}

#[test]
fn everyone_s_packets_come_back_over_the_node_if_that_is_wanted() {
    for (keys, seen) in [
        (r#""masqAll": true"#, "from 10.77.0.1"),
        (r#""snat": false"#, "from 192.168.50.2"),
    ] {
        let conf = CONF.replace(
            r#""type": "portmap","#,
            &format!(r#""type": "portmap", {keys},"#),
        );
        let (node, networks) = Node::with(&conf);
        let mut pod = node.pod("web");
        pod.map(8080, 80, Protocol::Tcp);
        node.attach(&networks, &pod);
        let _server = serve(&pod, "TCP4-LISTEN:80");
        let outside = outside(&node);
        let asked = outside.sh(&ask("TCP4:192.168.50.1:8080"));
        assert_eq!(asked.trim(), seen, "{keys}");
    }
}

#[test]
fn a_client_that_asked_before_the_pod_was_there_is_answered() {
    let (node, networks) = node();
    let mut pod = node.pod("dns");
    pod.map(5353, 53, Protocol::Udp);
    sh("ip link add br0 type bridge; ip addr add 10.77.0.1/24 dev br0; ip link set br0 up");
    // Connections are followed as soon as there is a rule that asks for it.
    sh("iptables -t nat -A OUTPUT -d 10.99.9.9 -j ACCEPT");
    let question =
        "sh -c 'echo hello | timeout 5 socat -T1 - UDP4:10.77.0.1:5353,sourceport=40404'";
    let _ = succeeds(question);
    node.attach(&networks, &pod);
    let _server = serve(&pod, "UDP4-LISTEN:53");
    // A busy machine answers later than the client waits; what is stuck to the old connection stays
    // stuck however often it asks.
    assert!((0..10).any(|_| sh(question).contains("from")));
}

#[test]
fn a_limit_slows_a_pod_down() {
    let node = Node::new();
    let with_limit = CONF.replace(
        r#"{"type": "firewall"}"#,
        r#"{"type": "bandwidth", "capabilities": {"bandwidth": true}}"#,
    );
    node.write_conf("10-net.conflist", &with_limit);
    let networks = node.open(InProcess::Always);
    let mut pod = node.pod("slow");
    let annotations = [("kubernetes.io/egress-bandwidth".to_owned(), "8M".to_owned())];
    let mut limits = orlop_network::Bandwidth::from_annotations(&annotations.into())
        .unwrap()
        .unwrap();
    limits.egress_burst = 800_000;
    pod.attachment.bandwidth = Some(limits);
    node.attach(&networks, &pod);
    let mut sink = Command::new("sh")
        .args(["-c", "exec socat -u TCP4-LISTEN:9000 /dev/null"])
        .spawn()
        .unwrap();
    while !sh("ss -Hlnt").contains(":9000 ") {
        std::thread::sleep(Duration::from_millis(20));
    }
    let started = std::time::Instant::now();
    // 1.1 MB at 1 MB per second, the first 0.1 MB for free.
    pod.sh("sh -c 'head -c 1100000 /dev/zero | timeout 20 socat -u - TCP4:10.77.0.1:9000'");
    sink.wait().unwrap();
    let took = started.elapsed();
    assert!(took > Duration::from_millis(700), "unlimited: {took:?}");
}

#[test]
fn a_pod_under_another_ethernet_address_is_heard_by_nobody() {
    let node = Node::new();
    let guarded = CONF.replace(
        r#""isGateway": true,"#,
        r#""isGateway": true, "macspoofchk": true,"#,
    );
    node.write_conf("10-net.conflist", &guarded);
    let networks = node.open(InProcess::Always);
    let [a, b] = ["a", "b"].map(|id| node.pod(id));
    let network_a = node.attach(&networks, &a);
    let network_b = node.attach(&networks, &b);
    let ping = format!("busybox ping -c1 -W2 {}", network_b.ips[0]);
    a.sh(&ping);
    let own = network_a.interfaces[0].mac.clone();
    a.sh("ip link set eth0 address 02:00:00:00:be:ef");
    assert!(!succeeds(&a.command(&ping)), "a neighbour hears it");
    assert!(
        !succeeds(&a.command("busybox ping -c1 -W2 10.77.0.1")),
        "the node hears it"
    );
    b.sh("busybox ping -c1 -W5 10.77.0.1");
    // Detaching one leaves the other's rules alone.
    node.detach(&networks, &b, &network_b);
    assert!(!succeeds(&a.command("busybox ping -c1 -W2 10.77.0.1")));
    a.sh(&format!("ip link set eth0 address {own}"));
    a.sh("busybox ping -c1 -W5 10.77.0.1");
    node.check(&networks, &a, &network_a);
}
