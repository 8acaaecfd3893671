//! Pods' packets to the outside under the node's address, by a set of a table of our own.

use orlop_network::InProcess;
use orlop_testkit::machine::has_program;
use serde_json::{Value, json};

use crate::support::{Node, PLUGINS, filter_rules, masqueraded, sh};

fn conf(backend: Option<&str>) -> String {
    let ranges = json!([[{"subnet": "10.77.0.0/24"}], [{"subnet": "fd77::/64"}]]);
    let mut bridge = json!({
        "type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true,
        "ipam": {"type": "host-local", "dataDir": "DATA", "ranges": ranges},
    });
    if let Some(backend) = backend {
        bridge["ipMasqBackend"] = json!(backend);
    }
    json!({"cniVersion": "1.0.0", "name": "net", "plugins": [bridge]}).to_string()
}

/// The rules that say what is masqueraded.
fn rules() -> usize {
    let text = sh("nft -a list chain ip orlop postrouting");
    text.lines()
        .filter(|line| line.contains("masquerade #") || line.contains("masquerade comment"))
        .count()
}

#[test]
fn all_pods_of_a_network_share_a_rule() {
    let (node, networks) = nft_node!(&conf(None));
    let [a, b] = ["a", "b"].map(|id| node.pod(id));
    let network_a = node.attach(&networks, &a);
    let network_b = node.attach(&networks, &b);
    let both = [
        "10.77.0.2 a eth0",
        "10.77.0.3 b eth0",
        "fd77::2 a eth0",
        "fd77::3 b eth0",
    ];
    assert_eq!(masqueraded(), both);
    assert_eq!(rules(), 1);
    assert_eq!(
        filter_rules()
            .lines()
            .filter(|line| line.contains("CNI"))
            .count(),
        0
    );
    node.check(&networks, &b, &network_b);

    node.detach(&networks, &a, &network_a);
    assert_eq!(masqueraded(), ["10.77.0.3 b eth0", "fd77::3 b eth0"]);

    sh("nft flush set ip orlop $(nft list sets ip | sed -n 's/.*set \\(masq[^ ]*\\).*/\\1/p')");
    let error = node
        .block(networks.check(&b.attachment, &network_b))
        .unwrap_err();
    assert!(
        error.with_causes().contains("10.77.0.3 is not masqueraded"),
        "{error:?}"
    );
    node.detach(&networks, &b, &network_b);
    assert_eq!(masqueraded(), Vec::<String>::new());
}

/// What an earlier version made: a chain for each pod.
#[test]
fn chains_of_an_earlier_version_are_undone() {
    let (node, networks) = nft_node!(&conf(Some("iptables")));
    let pod = node.pod("a");
    let mut network = node.attach(&networks, &pod);
    assert_eq!(masqueraded(), Vec::<String>::new());
    assert!(
        filter_rules().contains("id: \\\"a\\\""),
        "{}",
        filter_rules()
    );
    // Its record says nothing of that.
    let plugin = &mut network.networks[0].conf["plugins"][0];
    plugin.as_object_mut().unwrap().remove("ipMasqBackend");
    node.detach(&networks, &pod, &network);
    assert!(
        !filter_rules().contains("id: \\\"a\\\""),
        "{}",
        filter_rules()
    );
}

#[test]
fn what_programs_cannot_undo_is_undone_in_process() {
    orlop_testkit::skip_unless!(has_program("nft"));
    if !std::path::Path::new(PLUGINS).join("bridge").exists() {
        orlop_testkit::skip!("needs the package containernetworking-plugins");
    }
    let node = Node::new();
    node.write_conf("10-net.conflist", &conf(None));
    let pod = node.pod("a");
    let networks = node.open(InProcess::Always);
    let network = node.attach(&networks, &pod);
    assert_eq!(masqueraded().len(), 2);
    drop(networks);
    let networks = node.open(InProcess::Never);
    node.detach(&networks, &pod, &network);
    assert_eq!(masqueraded(), Vec::<String>::new());
}

/// A DEL may come twice, and late.
#[test]
fn an_address_s_next_owner_keeps_it() {
    orlop_testkit::skip_unless!(has_program("nft"));
    let node = Node::new();
    // Room for one pod.
    let narrow = conf(None).replace("10.77.0.0/24", "10.77.0.0/30");
    node.write_conf("10-net.conflist", &narrow);
    let networks = node.open(InProcess::Always);
    let [a, b] = ["a", "b"].map(|id| node.pod(id));
    let network_a = node.attach(&networks, &a);
    node.detach(&networks, &a, &network_a);
    node.attach(&networks, &b);
    node.detach(&networks, &a, &network_a);
    assert_eq!(masqueraded(), ["10.77.0.2 b eth0", "fd77::3 b eth0"]);
}

/// What an administrator, or another runtime, left behind under the pod's address.
#[test]
fn an_element_left_behind_is_taken_over() {
    let (node, networks) = nft_node!(&conf(None));
    let a = node.pod("a");
    let network_a = node.attach(&networks, &a);
    let set = "$(nft list sets ip | sed -n 's/.*set \\(masq[^ ]*\\).*/\\1/p')";
    sh(&format!(
        "nft add element ip orlop {set} '{{ 10.77.0.3 comment \"long gone\" }}'"
    ));
    let b = node.pod("b");
    let network_b = node.attach(&networks, &b);
    assert!(
        masqueraded().contains(&"10.77.0.3 b eth0".to_owned()),
        "{:?}",
        masqueraded()
    );
    for (pod, network) in [(a, network_a), (b, network_b)] {
        node.detach(&networks, &pod, &network);
    }
    assert_eq!(masqueraded(), Vec::<String>::new());
}

#[test]
fn addresses_nobody_noted_are_found_by_their_owner() {
    let (node, networks) = nft_node!(&conf(None));
    let pod = node.pod("a");
    let mut network = node.attach(&networks, &pod);
    network.networks[0].result = None::<Value>;
    node.detach(&networks, &pod, &network);
    assert_eq!(masqueraded(), Vec::<String>::new());
}
