//! The daemon killed at every step of attaching and of detaching: what the
//! next one finds, it cleans up.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "network/support/mod.rs"]
mod support;

use std::process::Command;

use orlop_network::{Attachment, InProcess, PortMapping, Protocol};
use orlop_testkit::machine::has_program;
use support::{Node, Pod, filter_rules, mapped, masqueraded, noted, sh};

const CONF: &str = r#"{
    "cniVersion": "1.1.0", "name": "net",
    "plugins": [
        {"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true, "macspoofchk": true, "ipam": {
            "type": "host-local", "dataDir": "DATA",
            "ranges": [[{"subnet": "10.77.0.0/24"}], [{"subnet": "fd77::/64"}]]}},
        {"type": "portmap", "capabilities": {"portMappings": true}},
        {"type": "firewall"}
    ]}"#;

/// Tells the child what to do: a directory, and `attach` or `detach`.
const DIRECTORY: &str = "ORLOP_NETWORK_TEST_DIRECTORY";
const WORK: &str = "ORLOP_NETWORK_TEST_WORK";

/// What the killed daemon does; run by the tests below, in their node.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let directory = std::path::PathBuf::from(directory);
    let pod = std::fs::read(directory.join("pod.json")).unwrap();
    let pod: Attachment = serde_json::from_slice(&pod).unwrap();
    let networks = support::open_in(&directory, InProcess::Always);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    if std::env::var(WORK).unwrap() == "attach" {
        runtime.block_on(networks.attach(pod)).unwrap();
    } else {
        runtime.block_on(networks.detach(&pod, None)).unwrap();
    }
}

/// Runs the child, killed before its `nth` call of `syscall`; whether it was.
fn killed(node: &Node, pod: &Pod, work: &str, syscall: &str, nth: usize) -> bool {
    let description = serde_json::to_vec(&pod.attachment).unwrap();
    std::fs::write(node.path("pod.json"), description).unwrap();
    let status = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e"])
        .arg(format!("trace={syscall}"))
        .arg("-e")
        .arg(format!("inject={syscall}:signal=KILL:when={nth}"))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--test-threads=1"])
        .env(DIRECTORY, node.path(""))
        .env(WORK, work)
        .output()
        .unwrap()
        .status;
    !status.success()
}

/// Kills the daemon before the first, the second, … call of `syscall` while it
/// does `work`, until it gets through; after each, the next daemon cleans up.
fn survive(work: &str, syscall: &str) {
    orlop_testkit::skip_unless!(has_program("strace"));
    let node = Node::new();
    node.write_conf("10-net.conflist", CONF);
    for nth in 1.. {
        assert!(nth < 200, "it never gets through");
        let mut pod = node.pod(&format!("pod{nth}"));
        pod.attachment.port_mappings.push(PortMapping {
            host_port: 8080,
            container_port: 80,
            protocol: Protocol::Tcp,
            host_ip: None,
        });
        if work == "detach" {
            let networks = node.open(InProcess::Always);
            node.block(networks.attach(pod.attachment.clone())).unwrap();
        }
        let was_killed = killed(&node, &pod, work, syscall, nth);
        // Half of the pods are gone by then, the others are still there.
        let kept = nth % 2 == 0;
        let pod = if kept {
            Some(pod)
        } else {
            drop(pod.die());
            None
        };
        let networks = node.open(InProcess::Always);
        let report = node.block(networks.gc(|_| false)).unwrap();
        assert_eq!(report.failed, [], "{work}, {syscall} {nth}");
        assert_nothing_left(&node, pod, &format!("{work}, {syscall} {nth}"));
        if !was_killed {
            assert!(nth > 3, "it hardly did anything");
            return;
        }
    }
}

fn assert_nothing_left(node: &Node, pod: Option<Pod>, when: &str) {
    assert_eq!(node.reserved("net"), Vec::<String>::new(), "{when}");
    let rules = filter_rules();
    let foreign = rules.lines().find(|line| {
        ["10.77.0", "fd77", "id:", "CNI-DN"]
            .iter()
            .any(|part| line.contains(part))
    });
    assert_eq!(foreign, None, "{when}");
    assert_eq!(masqueraded(), Vec::<String>::new(), "{when}");
    assert_eq!(mapped(), Vec::<String>::new(), "{when}");
    assert_eq!(noted(), Vec::<String>::new(), "{when}");
    let bridged = sh("nft list table bridge nat 2>/dev/null || true");
    assert!(!bridged.contains("macspoofchk"), "{when}: {bridged}");
    let journal = std::fs::read_dir(node.path("state/attachments")).unwrap();
    let left: Vec<_> = journal
        .flatten()
        .filter(|entry| {
            // What a write was cut short in is overwritten by the next.
            !entry.file_name().to_string_lossy().ends_with(".new")
        })
        .collect();
    assert!(left.is_empty(), "{when}: {left:?}");
    if let Some(pod) = pod {
        let addresses = pod.sh("ip -o addr show scope global");
        assert_eq!(addresses, "", "{when}");
        // The interface itself goes with its namespace.
        drop(pod.die());
    }
    node.interfaces_settle(&["br0"]);
}

#[test]
fn killed_at_any_message_to_the_kernel_while_attaching() {
    survive("attach", "sendto");
}

#[test]
fn killed_at_any_file_opened_while_attaching() {
    // Files are made, locked, read: before each.
    survive("attach", "flock,rename,renameat2,unlink,mkdir,setns");
}

#[test]
fn killed_at_any_message_to_the_kernel_while_detaching() {
    survive("detach", "sendto");
}

#[test]
fn killed_at_any_file_removed_while_detaching() {
    survive("detach", "flock,unlink");
}
