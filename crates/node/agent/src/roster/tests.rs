//! Manifests that are added, changed and removed, and the resulting orders.

use orlop_kubelet_rules::pod::Quantity;
use serde_json::{Value, json};

use super::*;
use crate::source::SourcePod;

pub(super) fn pod(name: &str, uid: &str, port: u16) -> Value {
    json!({"metadata": {"name": name, "uid": uid}, "spec": {"containers": [{
        "name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": port}]}]}})
}

pub(super) fn snapshot(pods: &[Value]) -> Snapshot {
    let pods = pods.iter().map(|manifest| SourcePod {
        manifest: manifest.clone(),
        kind: "file",
        origin: "f".to_owned(),
        line: 1,
    });
    Snapshot {
        pods: pods.collect(),
        ..Snapshot::default()
    }
}

pub(super) fn gate() -> Gate {
    Gate {
        allocatable: [("pods".to_owned(), Quantity::from_units(10))].into(),
        ..Gate::default()
    }
}

pub(super) fn shown(orders: &[Order]) -> Vec<String> {
    let words = orders.iter().map(|order| match order {
        Order::Remove(uid) => format!("remove {uid}"),
        Order::Set(input) => format!("set {}", input.uid()),
        Order::Reject(input, rejection) => {
            format!("reject {} {}", input.uid(), rejection.reason)
        }
    });
    words.collect()
}

fn told(roster: &mut Roster, pods: &[Value]) -> Vec<String> {
    roster.hear(0, snapshot(pods));
    shown(&roster.orders(&gate(), &BTreeSet::new()))
}

fn next(roster: &mut Roster) -> Vec<String> {
    shown(&roster.orders(&gate(), &BTreeSet::new()))
}

#[test]
fn pods_come_and_go() {
    let mut roster = Roster::new(1, BTreeMap::new());
    assert!(!roster.is_complete());
    assert_eq!(told(&mut roster, &[pod("a", "1", 80)]), ["set 1"]);
    assert!(roster.is_complete());
    assert_eq!(
        told(&mut roster, &[pod("a", "1", 80)]),
        Vec::<String>::new()
    );
    assert_eq!(told(&mut roster, &[pod("a", "1", 81)]), ["set 1"]);
    assert_eq!(told(&mut roster, &[]), ["remove 1"]);
    roster.gone("1");
    assert_eq!(told(&mut roster, &[pod("a", "1", 81)]), ["set 1"]);
}

#[test]
fn a_new_pod_of_an_old_name_waits_for_the_old_one() {
    let mut roster = Roster::new(1, BTreeMap::new());
    told(&mut roster, &[pod("a", "1", 80)]);
    assert_eq!(told(&mut roster, &[pod("a", "2", 80)]), ["remove 1"]);
    assert_eq!(next(&mut roster), Vec::<String>::new());
    roster.gone("1");
    assert_eq!(next(&mut roster), ["set 2"]);
    // Back to the first manifest before the second pod is gone.
    assert_eq!(told(&mut roster, &[pod("a", "1", 80)]), ["remove 2"]);
    assert_eq!(told(&mut roster, &[]), Vec::<String>::new());
}

#[test]
fn a_pod_that_changed_while_no_agent_ran_waits_for_its_old_self() {
    let old: Pod = serde_json::from_value(pod("a", "1", 80)).unwrap();
    let mut roster = Roster::new(1, BTreeMap::from([("1".to_owned(), Arc::new(old))]));
    assert_eq!(
        told(&mut roster, &[pod("a", "2", 80)]),
        Vec::<String>::new()
    );
    assert!(roster.is_complete());
    roster.dismiss_strangers();
    assert_eq!(next(&mut roster), Vec::<String>::new());
    roster.gone("1");
    assert_eq!(next(&mut roster), ["set 2"]);
}

#[test]
fn who_was_turned_away_comes_in_when_there_is_room() {
    let mut roster = Roster::new(1, BTreeMap::new());
    let (a, b) = (pod("a", "1", 80), pod("b", "2", 80));
    assert_eq!(
        told(&mut roster, &[a.clone(), b.clone()]),
        ["set 1", "reject 2 NodePorts"]
    );
    assert_eq!(told(&mut roster, std::slice::from_ref(&b)), ["remove 1"]);
    assert_eq!(next(&mut roster), Vec::<String>::new());
    roster.gone("1");
    assert_eq!(next(&mut roster), ["remove 2"]);
    roster.gone("2");
    assert_eq!(next(&mut roster), ["set 2"]);
    // A finished pod holds no ports.
    assert_eq!(told(&mut roster, &[b, a]), ["reject 1 NodePorts"]);
    assert!(roster.set_over("2", true));
    assert_eq!(next(&mut roster), ["remove 1"]);
}

#[test]
fn who_ran_before_comes_first() {
    let mut roster = Roster::new(1, BTreeMap::new());
    roster.hear(0, snapshot(&[pod("a", "1", 80), pod("b", "2", 80)]));
    let before = BTreeSet::from(["2".to_owned()]);
    assert_eq!(
        shown(&roster.orders(&gate(), &before)),
        ["set 2", "reject 1 NodePorts"]
    );
}

#[test]
fn the_evicted_come_back_after_the_pressure() {
    let mut roster = Roster::new(1, BTreeMap::new());
    told(&mut roster, &[pod("a", "1", 80)]);
    roster.evicted("1");
    let mut pressed = gate();
    pressed.pressures.insert("MemoryPressure");
    assert_eq!(
        shown(&roster.orders(&pressed, &BTreeSet::new())),
        Vec::<String>::new()
    );
    assert_eq!(next(&mut roster), ["remove 1"]);
    roster.gone("1");
    assert_eq!(next(&mut roster), ["set 1"]);
}

#[test]
fn of_two_pods_of_one_name_the_first_is_used_and_the_other_told() {
    let mut roster = Roster::new(2, BTreeMap::new());
    roster.hear(0, snapshot(&[pod("a", "1", 80)]));
    roster.hear(1, snapshot(&[pod("a", "2", 81), pod("b", "1", 82)]));
    assert_eq!(next(&mut roster), ["set 1"]);
    assert_eq!(roster.remarks().len(), 2, "{:?}", roster.remarks());
    assert!(roster.remarks()[0].text.contains("f:1"));
}
