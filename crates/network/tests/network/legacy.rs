//! A node whose `iptables` is the legacy one, whose programs share a lock.

use std::path::Path;
use std::process::Command;

use orlop_network::{ErrorKind, Protocol};
use orlop_testkit::assert_contains;
use orlop_testkit::process::run_for_text;
use rustix::fs::{FlockOperation, flock};

use crate::support::{Node, sh};

const CONF: &str = r#"{
    "cniVersion": "1.0.0", "name": "net",
    "plugins": [
        {"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true, "ipam": {
            "type": "host-local", "dataDir": "DATA", "subnet": "10.77.0.0/24"}},
        {"type": "portmap", "capabilities": {"portMappings": true}},
        {"type": "firewall"}
    ]}"#;

const PROGRAM: &str = "/usr/sbin/xtables-legacy-multi";

/// Where the programs' lock is; set for the child, which does the work.
const LOCK: &str = "XTABLES_LOCKFILE";

/// What `iptables` is decides once for a process: the work is done by one whose
/// `iptables` is the legacy one.
#[test]
fn a_lock_that_is_held_is_told_and_leaks_nothing() {
    if !Path::new(PROGRAM).exists() {
        orlop_testkit::skip!("needs the package iptables with its legacy programs");
    }
    let dir = tempfile::tempdir().unwrap();
    for family in ["iptables", "ip6tables"] {
        for kind in ["", "-save", "-restore"] {
            let name = dir.path().join(format!("{family}{kind}"));
            std::os::unix::fs::symlink(PROGRAM, name).unwrap();
        }
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "legacy::child", "--ignored", "--nocapture"])
        .env("PATH", format!("{}:{path}", dir.path().display()))
        .env(LOCK, dir.path().join("lock"));
    assert_contains!(run_for_text(&mut child), "1 passed");
}

#[test]
#[ignore = "the process that another test starts"]
fn child() {
    let lock = std::env::var(LOCK).unwrap();
    let (node, networks) = Node::with(CONF);
    let mut pod = node.pod("a");
    pod.map(8080, 80, Protocol::Tcp);
    let held = std::fs::File::create(lock).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let error = node.refusal(&networks, &pod);
    assert_eq!(error.kind(), ErrorKind::TryAgain, "{error}");
    assert_contains!(error.to_string(), "locked by another program");
    drop(held);
    // What could not be undone meanwhile is undone by the next try.
    let network = node.attach(&networks, &pod);
    assert_eq!(node.reserved("net").len(), 1);
    let rules = sh("iptables-save");
    let address = network.ips[0].to_string();
    assert_contains!(rules, &address, "8080");
    node.detach(&networks, &pod, &network);
    let rules = sh("iptables-save");
    assert!(
        !rules.contains(&address) && !rules.contains("8080"),
        "{rules}"
    );
    assert_eq!(node.reserved("net"), Vec::<String>::new());
}
