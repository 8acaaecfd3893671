//! The plugins done in process against their programs: the same results, the
//! same interfaces, routes, rules and files, for a table of configurations.
//! Masquerading and mapping ports are told to be done as the programs do it:
//! `masquerade.rs` and `port_maps.rs` test our own way.

use orlop_network::{Attachment, Bandwidth, InProcess, PodNetwork, Protocol};
use serde_json::{Value, json};

use crate::support::{Node, PLUGINS, Pod, bridges_know_vlans, filter_rules, port, sh};

/// All that can be seen of an attachment, made comparable, by what it is.
type Seen = Vec<(&'static str, String)>;

/// Attaches and detaches a pod, the programs' way or ours, on a node of its own.
fn look(in_process: InProcess, plugins: &Value, change: fn(&mut Attachment)) -> Seen {
    let plugins = plugins.clone();
    let node_of_its_own = move || {
        let node = Node::new();
        // What `iptables` shows then has all chains, whoever makes them.
        filter_rules();
        let conf = json!({"cniVersion": "1.0.0", "name": "net", "plugins": plugins});
        node.write_conf("10-net.conflist", &conf.to_string());
        let networks = node.open(in_process);
        let mut pod = node.pod("pod-a");
        change(&mut pod.attachment);
        let network = node.block(networks.attach(pod.attachment.clone()));
        let network = network.unwrap_or_else(|error| panic!("{}", error.with_causes()));
        if in_process == InProcess::Always {
            // The programs of this version refuse some of what they made.
            node.check(&networks, &pod, &network);
        }
        let mut seen = describe(&node, &pod, &network);
        node.detach(&networks, &pod, &network);
        seen.push(("rules after", rules()));
        seen.push(("bridge's rules after", bridge_rules()));
        seen.push(("addresses after", node.reserved("net").join(" ")));
        seen
    };
    // A thread may leave its namespace, the test's own must not.
    std::thread::spawn(node_of_its_own).join().unwrap()
}

fn describe(node: &Node, pod: &Pod, network: &PodNetwork) -> Seen {
    let mut result = network.networks[0].result.clone().unwrap();
    for interface in result["interfaces"].as_array_mut().into_iter().flatten() {
        interface["mac"] = json!("any");
        if interface["name"].as_str().unwrap().starts_with("veth") {
            interface["name"] = json!("vethX");
        }
        if interface.get("sandbox").is_some() {
            interface["sandbox"] = json!("pod");
        }
    }
    if result.get("dns") == Some(&json!({})) {
        result.as_object_mut().unwrap().remove("dns");
    }
    // The kernel's own routes come in no order.
    // The kernel tells of an interface that came up a little later.
    for _ in 0..100 {
        if !(sh("ip -br link") + &pod.sh("ip -br link")).contains("DOWN") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let routes = "sh -c 'ip route; ip -6 route | grep -v ^fe80 || true'";
    let settings = "ip_forward |all.forwarding|br0.(route_localnet|accept_ra )";
    let settings = format!("sysctl -a 2>/dev/null | grep -E '{settings}' || true");
    // On a point-to-point link ours does without looking for duplicates, and where there is no IPv6.
    let bridged = sh("ip link").contains("br0");
    let has_v6 = !pod.sh("ip -6 addr show dev eth0 scope global").is_empty();
    let probing = if bridged && has_v6 {
        "net.ipv6.conf.eth0.accept_dad"
    } else {
        ""
    };
    let pod_settings = format!("sysctl net.ipv4.tcp_syncookies {probing}");
    vec![
        ("result", format!("{result:#}")),
        (
            "pod's addresses",
            format!("{:#}", addresses(&pod.sh("ip -j addr show dev eth0"))),
        ),
        ("pod's routes", pod.sh(routes)),
        (
            "node's interfaces",
            format!("{:#}", links(&sh("ip -j -d addr"))),
        ),
        ("node's routes", hide_veth(&sh(routes))),
        ("rules", rules()),
        ("bridge's rules", bridge_rules()),
        ("ports' VLANs", port_vlans()),
        ("address files", format!("{:#?}", node.addresses("net"))),
        ("node's settings", sh(&settings)),
        ("pod's settings", pod.sh(&pod_settings)),
        ("limits", sorted(&hide_queues(&hide_veth(&sh("tc qdisc"))))),
    ]
}

/// The rules, without the one deliberate difference: where the programs
/// masquerade in every pod's chain, ours jump to a chain that all share.
fn rules() -> String {
    let rules = filter_rules();
    let lines = rules
        .lines()
        .filter(|line| !line.starts_with(":CNI-MASQUERADE "));
    let lines = lines.filter(|line| !line.starts_with("-A CNI-MASQUERADE "));
    let lines = lines.map(|line| line.replace("-j CNI-MASQUERADE", "-j MASQUERADE"));
    // Matches are shown in no particular order.
    let sorted = lines.map(|line| {
        let mut words: Vec<_> = line.split(' ').collect();
        words.sort_unstable();
        words.join(" ")
    });
    sorted.collect::<Vec<_>>().join("\n")
}

/// The rules for what bridges' ports send, without names and addresses made up.
fn bridge_rules() -> String {
    let hide = |word: &str| match word {
        word if word.starts_with("\"veth") => "vethX".to_owned(),
        word if word.split(':').count() == 6 => "mac".to_owned(),
        word => word.to_owned(),
    };
    let text = sh("nft list table bridge nat 2>/dev/null || true");
    let lines = text
        .lines()
        .map(|line| line.split(' ').map(hide).collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

/// What VLANs the bridge's ports carry, in no particular order.
fn port_vlans() -> String {
    let text = sh("bridge -j vlan show 2>/dev/null || true");
    let ports: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
    let mut ports: Vec<_> = ports
        .iter()
        .map(|port| {
            hide_veth(&format!(
                "{} {}",
                port["ifname"].as_str().unwrap(),
                port["vlans"]
            ))
        })
        .collect();
    ports.sort();
    ports.join("\n")
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Its queues refer to a root. Of those that an interface does not use ours have none.
fn hide_queues(qdiscs: &str) -> String {
    let mut words: Vec<_> = qdiscs.split(' ').collect();
    for at in 1..words.len() {
        if words[at - 1] == "refcnt" {
            words[at] = "N";
        }
    }
    words.join(" ")
}

fn hide_veth(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        if word.starts_with("veth") {
            "vethX"
        } else {
            word
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// An interface's addresses and MTU, without the kernel's own.
fn addresses(text: &str) -> Value {
    let links: Vec<Value> = serde_json::from_str(text).unwrap();
    let of_link = |link: &Value| {
        let infos = link["addr_info"].as_array().unwrap().iter();
        let own = infos.filter(|info| info["scope"] != "link");
        let texts = own.map(|info| {
            format!(
                "{}/{} {}",
                info["local"], info["prefixlen"], info["broadcast"]
            )
        });
        let mut texts: Vec<_> = texts.collect();
        texts.sort();
        // The kernel takes its time to say of a bridge that its ports carry.
        let up = link["flags"].as_array().unwrap().contains(&json!("UP"));
        json!({"mtu": link["mtu"], "addresses": texts, "up": up})
    };
    links.iter().map(of_link).collect()
}

/// The node's interfaces: kinds, bridge ports' flags, addresses.
fn links(text: &str) -> Value {
    let links: Vec<Value> = serde_json::from_str(text).unwrap();
    let of_link = |link: &Value| {
        let port = &link["linkinfo"]["info_slave_data"];
        json!({
            "kind": link["linkinfo"]["info_kind"],
            "addresses": addresses(&json!([link]).to_string())[0],
            "promiscuous": link["flags"].as_array().unwrap().contains(&json!("PROMISC")),
            "hairpin": port["hairpin"],
            "isolated": port["isolated"],
            "master": link["master"],
            "filtering": link["linkinfo"]["info_data"]["vlan_filtering"],
        })
    };
    let mut links: Vec<Value> = links.iter().map(of_link).collect();
    links.sort_by_key(ToString::to_string);
    links.into()
}

fn compare(plugins: Value) {
    compare_with(plugins, |_| ());
}

fn compare_with(plugins: Value, change: fn(&mut Attachment)) {
    if !std::path::Path::new(PLUGINS).join("bridge").exists() {
        orlop_testkit::skip!("needs the package containernetworking-plugins");
    }
    let programs = look(InProcess::Never, &plugins, change);
    let ours = look(InProcess::Always, &plugins, change);
    for ((what, theirs), (_, ours)) in programs.iter().zip(&ours) {
        assert!(
            theirs == ours,
            "the {what} differ\n--- programs:\n{theirs}\n--- ours:\n{ours}"
        );
    }
}

fn host_local(keys: &Value) -> Value {
    let mut ipam = json!({"type": "host-local", "dataDir": "DATA"});
    for (key, value) in keys.as_object().unwrap() {
        ipam[key] = value.clone();
    }
    ipam
}

fn bridge(keys: &Value, ipam: &Value) -> Value {
    let mut plugin = json!({"type": "bridge", "bridge": "br0", "ipam": ipam});
    for (key, value) in keys.as_object().unwrap() {
        plugin[key] = value.clone();
    }
    plugin
}

fn usual_ipam() -> Value {
    host_local(&json!({"subnet": "10.88.0.0/16", "routes": [{"dst": "0.0.0.0/0"}]}))
}

fn dual_ipam() -> Value {
    host_local(&json!({
        "ranges": [[{"subnet": "10.88.0.0/16"}], [{"subnet": "fd88::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
    }))
}

#[test]
fn a_bare_bridge() {
    compare(json!([bridge(&json!({}), &usual_ipam())]));
}

#[test]
fn a_bridge_as_gateway_with_masquerading() {
    compare(json!([bridge(
        &json!({"isGateway": true, "ipMasq": true, "ipMasqBackend": "iptables"}),
        &usual_ipam()
    )]));
}

#[test]
fn a_bridge_as_default_gateway_with_two_families() {
    let keys = json!({"isDefaultGateway": true, "ipMasq": true, "ipMasqBackend": "iptables", "hairpinMode": true, "mtu": 1400});
    let ipam =
        host_local(&json!({"ranges": [[{"subnet": "10.88.0.0/16"}], [{"subnet": "fd88::/64"}]]}));
    compare(json!([bridge(&keys, &ipam)]));
}

#[test]
fn a_promiscuous_bridge_with_dns() {
    let mut plugin = bridge(
        &json!({"promiscMode": true, "isGateway": true}),
        &usual_ipam(),
    );
    plugin["dns"] = json!({"nameservers": ["10.0.0.53"], "search": ["cluster.local"]});
    compare(json!([plugin]));
}

#[test]
fn ranges_gateways_and_routes() {
    let ipam = host_local(&json!({
        "ranges": [
            [{"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.50", "rangeEnd": "10.1.0.60", "gateway": "10.1.0.254"}],
            [{"subnet": "fd01::/112", "rangeStart": "fd01::100"}],
        ],
        "routes": [
            {"dst": "192.168.0.0/16"},
            {"dst": "172.16.0.0/12", "gw": "10.1.0.9"},
            {"dst": "fd99::/32"},
        ],
    }));
    compare(json!([bridge(&json!({"isGateway": true}), &ipam)]));
}

#[test]
fn two_ranges_of_one_family() {
    let ranges = json!([[{"subnet": "10.1.0.0/24"}], [{"subnet": "10.2.0.0/30"}]]);
    let ipam = host_local(&json!({ "ranges": ranges }));
    // Without masquerading: the programs of this version cannot remove the
    // rules of two addresses of one family.
    compare(json!([bridge(&json!({"isGateway": false}), &ipam)]));
}

#[test]
fn addresses_asked_for() {
    let mut plugin = bridge(&json!({"isGateway": true}), &dual_ipam());
    plugin["capabilities"] = json!({"ips": true, "mac": true});
    compare_with(json!([plugin]), |pod| {
        pod.ips = vec![
            "10.88.3.4/16".parse().unwrap(),
            "fd88::77/64".parse().unwrap(),
        ];
        pod.mac = Some("02:11:22:33:44:55".parse().unwrap());
    });
}

#[test]
fn static_addresses() {
    let ipam = json!({
        "type": "static",
        "addresses": [
            {"address": "10.10.0.7/24", "gateway": "10.10.0.254"},
            {"address": "fd10::7/64", "gateway": "fd10::1"},
        ],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "192.168.0.0/16", "gw": "10.10.0.5"}],
    });
    compare(json!([bridge(
        &json!({"isGateway": true, "ipMasq": true, "ipMasqBackend": "iptables"}),
        &ipam
    )]));
}

#[test]
fn a_point_to_point_link() {
    compare(
        json!([{"type": "ptp", "ipMasq": true, "ipMasqBackend": "iptables", "mtu": 1450, "ipam": usual_ipam()}]),
    );
}

#[test]
fn a_point_to_point_link_with_two_families() {
    compare(json!([{"type": "ptp", "ipam": dual_ipam()}]));
}

#[test]
fn mapped_ports_of_all_kinds() {
    let plugins = json!([
        bridge(&json!({"isGateway": true, "ipMasq": true, "ipMasqBackend": "iptables"}), &dual_ipam()),
        {"type": "portmap", "backend": "iptables", "capabilities": {"portMappings": true}},
    ]);
    compare_with(plugins, |pod| {
        pod.port_mappings = vec![
            port(8080, 80, Protocol::Tcp, ""),
            port(8081, 81, Protocol::Tcp, "127.0.0.1"),
            port(5353, 53, Protocol::Udp, "0.0.0.0"),
            port(9999, 99, Protocol::Sctp, ""),
            port(8443, 443, Protocol::Tcp, "fd88::1"),
        ];
    });
}

#[test]
fn mapped_ports_without_source_translation() {
    let plugins = json!([
        bridge(&json!({"isGateway": true}), &usual_ipam()),
        {"type": "portmap", "backend": "iptables", "snat": false, "capabilities": {"portMappings": true}},
    ]);
    compare_with(plugins, |pod| {
        pod.port_mappings = (1..=20)
            .map(|n| port(7000 + n, n, Protocol::Tcp, ""))
            .collect();
    });
}

#[test]
fn a_firewall_and_tuning() {
    compare(json!([
        bridge(&json!({"isGateway": true}), &dual_ipam()),
        {"type": "firewall"},
        {
            "type": "tuning",
            "mac": "02:aa:bb:cc:dd:ee",
            "mtu": 1300,
            "sysctl": {"net.ipv4.tcp_syncookies": "0"},
        },
    ]));
}

#[test]
fn limited_bandwidth() {
    let plugins = json!([
        bridge(&json!({"isGateway": true}), &usual_ipam()),
        {"type": "bandwidth", "capabilities": {"bandwidth": true}},
    ]);
    compare_with(plugins, |pod| {
        pod.bandwidth = Some(Bandwidth {
            ingress_rate: 10_000_000,
            ingress_burst: 1_000_000,
            egress_rate: 3_000_000,
            egress_burst: 2_000_000,
        });
    });
}

#[test]
fn other_ethernet_addresses_are_dropped_by_the_same_rules() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::has_program("nft"));
    let plugin = bridge(
        &json!({"isGateway": true, "macspoofchk": true}),
        &usual_ipam(),
    );
    compare(json!([plugin]));
    let seen = look(InProcess::Always, &json!([plugin]), |_| ());
    let rules = &seen
        .iter()
        .find(|(what, _)| *what == "bridge's rules")
        .unwrap()
        .1;
    assert!(rules.contains("ether saddr mac"), "{rules}");
}

#[test]
fn a_vlan_with_and_without_a_gateway() {
    if !bridges_know_vlans() {
        return;
    }
    // The programs of this version always keep the default VLAN.
    let keys = json!({"vlan": 100, "preserveDefaultVlan": true});
    compare(json!([bridge(&keys, &usual_ipam())]));
    let keys = json!({
        "vlan": 100, "preserveDefaultVlan": true, "isGateway": true, "ipMasq": true, "ipMasqBackend": "iptables", "mtu": 1400,
    });
    compare(json!([bridge(&keys, &dual_ipam())]));
}
