//! Pods in VLANs of a bridge: whom they reach, and what their ports carry.

use orlop_network::{InProcess, Networks, PodNetwork};
use serde_json::{Value, json};

use crate::support::{Node, Pod, bridges_know_vlans, sh, succeeds};

/// A node with a network for each name, which asks for these keys beside the usual.
struct Vlans {
    node: Node,
    attached: Vec<(Networks, Pod, PodNetwork)>,
}

impl Vlans {
    fn new() -> Option<Self> {
        bridges_know_vlans().then(|| Self {
            node: Node::new(),
            attached: Vec::new(),
        })
    }

    /// Attaches a pod by a bridge plugin with these keys; all are in one subnet.
    fn attach(&mut self, name: &str, keys: &Value) -> &Pod {
        let last = self.attached.len() + 10;
        let mut bridge = json!({
            "type": "bridge", "bridge": "br0",
            "ipam": {"type": "static", "addresses": [
                {"address": format!("10.77.0.{last}/24"), "gateway": "10.77.0.1"}]},
        });
        for (key, value) in keys.as_object().unwrap() {
            bridge[key] = value.clone();
        }
        let conf = json!({"cniVersion": "1.0.0", "name": "net", "plugins": [bridge]});
        self.node.write_conf("10-net.conflist", &conf.to_string());
        let networks = self.node.open(InProcess::Always);
        let pod = self.node.pod(name);
        let network = self.node.block(networks.attach(pod.attachment.clone()));
        let network = network.unwrap_or_else(|error| panic!("{}", error.with_causes()));
        self.node.check(&networks, &pod, &network);
        self.attached.push((networks, pod, network));
        &self.attached.last().unwrap().1
    }

    fn reaches(&self, from: usize, address: &str) -> bool {
        let ping = format!("busybox ping -c1 -W2 {address}");
        succeeds(&self.attached[from].1.command(&ping))
    }

    /// The VLANs of a pod's port: number and flags.
    fn vlans_of(&self, pod: usize) -> Vec<String> {
        let network = &self.attached[pod].2;
        let result = network.networks[0].result.as_ref().unwrap();
        let port = result["interfaces"][1]["name"].as_str().unwrap();
        let shown = sh(&format!("bridge -j vlan show dev {port}"));
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let vlans = shown[0]["vlans"].as_array().unwrap().iter();
        vlans
            .map(|vlan| {
                let flags = vlan["flags"].as_array().map_or(0, Vec::len);
                let number = &vlan["vlan"];
                match vlan.get("vlanEnd") {
                    Some(end) => format!("{number}-{end} {flags}"),
                    None => format!("{number} {flags}"),
                }
            })
            .collect()
    }
}

#[test]
fn only_pods_of_one_vlan_reach_each_other_and_its_gateway() {
    let Some(mut node) = Vlans::new() else { return };
    node.attach("a", &json!({"vlan": 100, "isGateway": true}));
    node.attach("b", &json!({"vlan": 100, "isGateway": true}));
    node.attach("c", &json!({"vlan": 200}));
    assert!(node.reaches(0, "10.77.0.11"), "a neighbour");
    assert!(node.reaches(0, "10.77.0.1"), "the gateway");
    assert!(!node.reaches(0, "10.77.0.12"), "another VLAN's pod");
    assert!(!node.reaches(2, "10.77.0.1"), "another VLAN's gateway");
    assert_eq!(node.vlans_of(0), ["100 2"], "no other VLAN is carried");
    let gateway = sh("ip -o -4 addr show dev br0.100");
    assert!(gateway.contains("10.77.0.1/24"), "{gateway}");
    let result = node.attached[0].2.networks[0].result.clone().unwrap();
    assert_eq!(result["interfaces"][3]["name"], "br0.100");
}

#[test]
fn the_default_vlan_stays_where_that_is_asked() {
    let Some(mut node) = Vlans::new() else { return };
    node.attach("a", &json!({"vlan": 100, "preserveDefaultVlan": true}));
    assert_eq!(node.vlans_of(0), ["1 1", "100 2"]);
}

#[test]
fn a_trunk_carries_the_vlans_it_names() {
    let Some(mut node) = Vlans::new() else { return };
    node.attach("a", &json!({"vlan": 100}));
    node.attach("b", &json!({"vlan": 300}));
    let trunk = json!([{"id": 50}, {"minID": 100, "maxID": 102}]);
    let pod = node.attach("router", &json!({"vlanTrunk": trunk}));
    pod.sh("ip addr flush dev eth0");
    for id in [100, 300] {
        pod.sh(&format!(
            "ip link add link eth0 name v{id} type vlan id {id}"
        ));
        pod.sh(&format!("ip link set v{id} up"));
    }
    pod.sh("ip addr add 10.77.0.99/24 dev v100");
    assert!(node.reaches(2, "10.77.0.10"), "a VLAN of the trunk");
    let router = &node.attached[2].1;
    router.sh("ip addr del 10.77.0.99/24 dev v100");
    router.sh("ip addr add 10.77.0.99/24 dev v300");
    assert!(!node.reaches(2, "10.77.0.11"), "a VLAN it does not name");
    let carried = node.vlans_of(2).join(" ");
    assert!(
        carried.starts_with("1 2 50 0 100") && !carried.contains("300"),
        "{carried}"
    );
}

#[test]
fn a_gateway_that_a_crash_left_unfinished_is_finished() {
    let Some(mut node) = Vlans::new() else { return };
    sh("ip link add br0 type bridge vlan_filtering 1 && ip link set br0 up");
    sh("ip link add half0 type veth peer name br0.100 && ip link set half0 master br0 up");
    node.attach("a", &json!({"vlan": 100, "isGateway": true}));
    assert!(node.reaches(0, "10.77.0.1"));
}
