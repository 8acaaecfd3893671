//! What one pod costs among others: what the kernel is asked does not grow with them.

use std::process::Command;

use orlop_network::{Attachment, InProcess, Protocol};
use orlop_testkit::assert_contains;
use orlop_testkit::machine::has_program;
use orlop_testkit::process::run_for_text;

use crate::support::{self, Node, Pod, sh};

const CONF: &str = r#"{
    "cniVersion": "1.0.0", "name": "net",
    "plugins": [
        {"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
         "ipam": {"type": "host-local", "dataDir": "DATA", "ranges": [[{"subnet": "10.77.0.0/24"}]]}},
        {"type": "portmap", "capabilities": {"portMappings": true}},
        {"type": "firewall"}
    ]}"#;

/// A pod with a port of the node's.
fn pod(node: &Node, name: &str, port: u16) -> Pod {
    let mut pod = node.pod(name);
    pod.map(port, 80, Protocol::Tcp);
    pod
}

/// Tells the child what to do: a directory.
const DIRECTORY: &str = "ORLOP_NETWORK_TEST_CROWD";

/// What is looked at; run by the test below, in its node.
#[test]
#[ignore = "the process that another test starts"]
fn child() {
    let directory = std::path::PathBuf::from(std::env::var(DIRECTORY).unwrap());
    let pod = std::fs::read(directory.join("pod.json")).unwrap();
    let pod: Attachment = serde_json::from_slice(&pod).unwrap();
    let networks = support::open_in(&directory, InProcess::Always);
    let runtime = orlop_testkit::reactor();
    let network = runtime.block_on(networks.attach(pod.clone())).unwrap();
    runtime
        .block_on(networks.detach(&pod, Some(&network)))
        .unwrap();
}

/// How many bytes the kernel answers while a pod is attached and detached.
fn answered(node: &Node, pod: &Pod) -> usize {
    let description = serde_json::to_vec(&pod.attachment).unwrap();
    std::fs::write(node.path("pod.json"), description).unwrap();
    let trace = node.path("trace");
    let mut child = Command::new("strace");
    child
        .args(["-f", "-qq", "-e", "trace=recvfrom", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "crowd::child", "--ignored", "--test-threads=1"])
        .env(DIRECTORY, node.path(""));
    assert_contains!(run_for_text(&mut child), "1 passed");
    let trace = std::fs::read_to_string(trace).unwrap();
    let lengths = trace.lines().filter_map(|line| {
        let (_, length) = line.rsplit_once("= ")?;
        length.trim().parse::<usize>().ok()
    });
    lengths.sum()
}

#[test]
fn the_kernel_answers_as_much_for_the_first_pod_as_for_one_of_many() {
    orlop_testkit::skip_unless!(has_program("strace"));
    let (node, networks) = Node::with(CONF);
    let first = pod(&node, "first", 8000);
    // Makes what all share.
    let network = node.attach(&networks, &first);
    node.detach(&networks, &first, &network);
    let alone = answered(&node, &pod(&node, "alone", 8001));
    assert!(alone > 1000, "{alone} bytes are hardly an attachment");
    let others: Vec<_> = (0..40)
        .map(|n| pod(&node, &format!("other{n}"), 9000 + n))
        .collect();
    for other in &others {
        node.attach(&networks, other);
    }
    for n in 0..40 {
        sh(&format!(
            "ip link add f{n} type veth peer name p{n}; ip link set f{n} master br0 up; ip addr add 10.1.{n}.1/24 dev p{n}; ip link set p{n} up"
        ));
    }
    let among = answered(&node, &pod(&node, "among", 8002));
    assert!(
        among <= alone + alone / 10,
        "{alone} bytes alone, {among} among others"
    );
}
