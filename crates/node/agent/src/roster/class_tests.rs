//! Node requirements of RuntimeClasses.

use serde_json::{Value, json};

use super::tests::{gate, pod, shown, snapshot};
use super::*;

fn told(pod: Value, scheduling: &Value, gate: &Gate) -> Vec<String> {
    let class = json!({"kind": "RuntimeClass", "metadata": {"name": "guest"}, "handler": "kata",
        "overhead": {"podFixed": {"cpu": "2"}}, "scheduling": scheduling});
    let mut roster = Roster::new(1, BTreeMap::new());
    let mut snapshot = snapshot(&[pod]);
    snapshot.objects = vec![class];
    roster.hear(0, snapshot);
    shown(&roster.orders(gate, &BTreeSet::new()))
}

#[test]
fn pods_of_a_class_need_the_labels_and_the_room_that_it_asks_for() {
    let mut gate = gate();
    gate.allocatable.insert(
        "cpu".to_owned(),
        orlop_kubelet_rules::pod::Quantity::from_units(3),
    );
    gate.labels = [("zone".to_owned(), "a".to_owned())].into();
    let mut one = pod("a", "1", 80);
    one["spec"]["runtimeClassName"] = json!("guest");
    let here = json!({"nodeSelector": {"zone": "a"}, "tolerations": [{"operator": "Exists"}]});
    let elsewhere = json!({"nodeSelector": {"zone": "b"}});
    assert_eq!(told(one.clone(), &here, &gate), ["set 1"]);
    assert_eq!(
        told(one.clone(), &elsewhere, &gate),
        ["reject 1 NodeAffinity"]
    );
    assert_eq!(told(one.clone(), &json!(null), &gate), ["set 1"]);
    let mut other = one.clone();
    other["spec"]["nodeSelector"] = json!({"zone": "b"});
    assert_eq!(
        told(other, &here, &gate),
        ["reject 1 NodeAffinity"],
        "no node has both"
    );
    gate.allocatable.insert(
        "cpu".to_owned(),
        orlop_kubelet_rules::pod::Quantity::from_units(1),
    );
    assert_eq!(told(one, &here, &gate), ["reject 1 OutOfcpu"]);
    assert_eq!(told(pod("a", "1", 80), &elsewhere, &gate), ["set 1"]);
}

#[test]
fn what_a_class_takes_is_taken_until_the_pod_is_gone() {
    let mut gate = gate();
    let cpu = orlop_kubelet_rules::pod::Quantity::from_units(3);
    gate.allocatable.insert("cpu".to_owned(), cpu);
    let class = json!({"kind": "RuntimeClass", "metadata": {"name": "guest"}, "handler": "kata",
        "overhead": {"podFixed": {"cpu": "2"}}});
    let mut roster = Roster::new(1, BTreeMap::new());
    let mut orders = |pod: Value| {
        let mut snapshot = snapshot(&[pod]);
        snapshot.objects = vec![class.clone()];
        roster.hear(0, snapshot);
        let orders = shown(&roster.orders(&gate, &BTreeSet::new()));
        (orders, roster.known.len())
    };
    let guest = |name: &str, uid: &str, port| {
        let mut pod = pod(name, uid, port);
        pod["spec"]["runtimeClassName"] = json!("guest");
        pod
    };
    assert_eq!(orders(guest("a", "1", 80)).0, ["set 1"]);
    assert_eq!(
        orders(guest("b", "2", 81)).0,
        ["remove 1", "reject 2 OutOfcpu"],
        "the first one's machine still runs"
    );
}
