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

use orlop_network::{Attachment, InProcess, Protocol};
use orlop_testkit::strace::{self, Call, Traced};
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

/// A directory that is not there. The child removes it before it begins, as a mark in the trace.
const BEGIN: &str = "begin";

/// The system calls that change files, send messages to the kernel, or change where a thread is.
const CHANGES: &str = "openat,creat,write,pwrite64,writev,ftruncate,fallocate,fchmod,fchmodat,\
    flock,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,\
    mount,umount2,setns,unshare,sendto,sendmsg,sendmmsg,ioctl";

/// What the killed daemon does; run by the tests below, in their node.
#[test]
#[ignore = "the process that other tests start"]
fn child() {
    let directory = std::path::PathBuf::from(std::env::var(DIRECTORY).unwrap());
    let pod = std::fs::read(directory.join("pod.json")).unwrap();
    let pod: Attachment = serde_json::from_slice(&pod).unwrap();
    let networks = support::open_in(&directory, InProcess::Always);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Else chance chooses the thread that does the next step.
        .max_blocking_threads(1)
        .build()
        .unwrap();
    // Only what comes now is part of the work.
    std::fs::remove_dir(directory.join(BEGIN)).unwrap_err();
    if std::env::var(WORK).unwrap() == "attach" {
        runtime.block_on(networks.attach(pod)).unwrap();
    } else {
        runtime.block_on(networks.detach(&pod, None)).unwrap();
    }
}

/// A node with a pod that is to be attached or, attached, to be detached.
struct Scene {
    node: Node,
    pod: Pod,
    child: Command,
}

impl Scene {
    /// Pods of different scenes have other addresses: interfaces that are to be deleted later are known by them.
    fn new(work: &str, number: usize) -> Self {
        let node = Node::new();
        let conf = CONF.replace("10.77.0.", &format!("10.77.{number}."));
        node.write_conf("10-net.conflist", &conf);
        let pod = pod(&node, "pod1");
        let networks = node.open(InProcess::Always);
        if work == "detach" {
            node.attach(&networks, &pod);
        }
        let description = serde_json::to_vec(&pod.attachment).unwrap();
        std::fs::write(node.path("pod.json"), description).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "child", "--ignored", "--test-threads=1"])
            .env(DIRECTORY, node.path(""))
            .env(WORK, work);
        Self { node, pod, child }
    }

    /// The next daemon cleans up, and then serves a pod with the same port.
    fn assert_next_daemon_recovers(self, is_pod_kept: bool, when: &str) {
        let Self { node, pod, .. } = self;
        let pod = if is_pod_kept {
            Some(pod)
        } else {
            drop(pod.die());
            None
        };
        let networks = node.open(InProcess::Always);
        let report = node.block(networks.gc(|_| false)).unwrap();
        assert_eq!(report.failed, [], "{when}");
        assert_nothing_left(&node, pod, when);

        let next = self::pod(&node, "pod2");
        let attached = node.block(networks.attach(next.attachment.clone()));
        let network = attached.unwrap_or_else(|error| panic!("{when}: the next pod: {error}"));
        node.detach(&networks, &next, &network);
        assert_nothing_left(&node, Some(next), when);
    }
}

/// A pod with a port of the node's.
fn pod(node: &Node, name: &str) -> Pod {
    let mut pod = node.pod(name);
    pod.map(8080, 80, Protocol::Tcp);
    pod
}

/// Whether this call changes a file, sends a message to the kernel, or changes where the thread is.
fn is_change(call: &Call) -> bool {
    let on = |kind: &str| {
        let descriptor = call.arguments.split_once('<');
        descriptor.is_some_and(|(_, target)| target.starts_with(kind))
    };
    match call.name.as_str() {
        "openat" => ["O_CREAT", "O_TRUNC"]
            .iter()
            .any(|flag| call.arguments.contains(flag)),
        // Not what the runtime writes to wake its threads, nor what the test says.
        "write" | "pwrite64" | "writev" => on("/"),
        "sendto" | "sendmsg" | "sendmmsg" | "ioctl" => on("socket:"),
        _ => true,
    }
}

/// Whether this call is a message to the kernel.
fn is_message(call: &Call) -> bool {
    call.name.starts_with("send") || call.name == "ioctl"
}

/// Kills the daemon before each of the calls of `work` that are of this kind, each time on a node of its own.
fn survive(work: &str, is_of_kind: impl Fn(&Call) -> bool) {
    orlop_testkit::skip_unless!(strace::can_trace());
    let scene = Scene::new(work, 0);
    let output = scene.node.path("strace");
    let run = Traced::new(&scene.child, CHANGES, &output).run();
    drop(scene);
    let is_begin = |call: &Call| call.arguments.contains(&format!("/{BEGIN}\""));
    let of_work = run.iter().skip_while(|call| !is_begin(call)).skip(1);
    let kind = |call: &&Call| is_change(call) && is_of_kind(call);
    let calls: Vec<_> = of_work.filter(kind).collect();
    assert!(calls.len() > 5, "it hardly does anything: {run:?}");
    for (number, call) in (1..).zip(&calls) {
        let scene = killed_before(work, number, &run, call);
        let when = format!("{work}, killed before {call:?}");
        scene.assert_next_daemon_recovers(number % 2 == 0, &when);
    }
    eprintln!(
        "{work}: killed before each of {} calls: {:?}",
        calls.len(),
        strace::names(calls)
    );
}

/// A scene whose daemon was killed before this call. Threads may share their work otherwise than in the traced
/// run, and it dies at another call then.
fn killed_before(work: &str, number: usize, run: &[Call], call: &Call) -> Scene {
    let mut missed = Vec::new();
    while missed.len() < 5 {
        let scene = Scene::new(work, number);
        let output = scene.node.path("strace");
        let killed_at = Traced::new(&scene.child, CHANGES, &output).kill_before(run, call);
        if killed_at.as_ref().is_some_and(|at| at.is_same_step(call)) {
            return scene;
        }
        missed.push(killed_at);
    }
    panic!("{work}: to be killed before {call:?}, was at {missed:?}");
}

fn assert_nothing_left(node: &Node, pod: Option<Pod>, when: &str) {
    assert_eq!(node.reserved("net"), Vec::<String>::new(), "{when}");
    let rules = filter_rules();
    let foreign = rules.lines().find(|line| {
        ["10.77.", "fd77", "id:", "CNI-DN"]
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
    survive("attach", is_message);
}

#[test]
fn killed_at_any_change_of_a_file_while_attaching() {
    survive("attach", |call| !is_message(call));
}

#[test]
fn killed_at_any_message_to_the_kernel_while_detaching() {
    survive("detach", is_message);
}

#[test]
fn killed_at_any_change_of_a_file_while_detaching() {
    survive("detach", |call| !is_message(call));
}
