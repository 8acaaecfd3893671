//! A node whose `iptables` is the legacy one, whose programs share a lock.

use std::path::Path;
use std::process::Command;

use orlop_network::{ErrorKind, PortMapping, Protocol};
use orlop_testkit::assert_contains;
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
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "legacy::child", "--ignored", "--nocapture"])
        .env("PATH", format!("{}:{path}", dir.path().display()))
        .env(LOCK, dir.path().join("lock"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let passed = String::from_utf8_lossy(&output.stdout);
    assert!(passed.contains("1 passed"), "{passed}");
}

#[test]
#[ignore = "the process that another test starts"]
fn child() {
    let lock = std::env::var(LOCK).unwrap();
    let (node, networks) = Node::with(CONF);
    let mut pod = node.pod("a");
    pod.attachment.port_mappings.push(PortMapping {
        host_port: 8080,
        container_port: 80,
        protocol: Protocol::Tcp,
        host_ip: None,
    });
    let held = std::fs::File::create(lock).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let error = node
        .block(networks.attach(pod.attachment.clone()))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TryAgain, "{error}");
    assert_contains!(error.to_string(), "locked by another program");
    drop(held);
    // What could not be undone meanwhile is undone by the next try.
    let network = node.block(networks.attach(pod.attachment.clone())).unwrap();
    assert_eq!(node.reserved("net").len(), 1);
    let rules = sh("iptables-save");
    let address = network.ips[0].to_string();
    assert_contains!(rules, &address, "8080");
    node.block(networks.detach(&pod.attachment, Some(&network)))
        .unwrap();
    let rules = sh("iptables-save");
    assert!(
        !rules.contains(&address) && !rules.contains("8080"),
        "{rules}"
    );
    assert_eq!(node.reserved("net"), Vec::<String>::new());
}
