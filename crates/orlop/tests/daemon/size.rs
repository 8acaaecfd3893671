//! What a daemon costs a node that does nothing, in memory and on the disk.

use orlop_cri_api::v1::{ListContainersRequest, StatusRequest};
use orlop_testkit::process::memory;
use orlop_testkit::{Node, node};

/// All memory, in kB, before anyone has asked for anything, and after a kubelet has. Only a
/// release build is held to it (`make test-release`): the code of others is several times as large.
const UNASKED: u64 = 12 << 10;
const RESIDENT: u64 = 16 << 10;

/// Memory that is not the program's file, in kB.
const ANONYMOUS: u64 = 6 << 10;

/// The program of a release build, in bytes.
const PROGRAM: u64 = 45_000_000;

#[tokio::test]
async fn an_idle_daemon_is_small() {
    let node = Node::orlop().start().await;
    let unasked = memory(node.pid(), "VmRSS:");
    let cri = node.cri().await;
    // What a kubelet has asked a hundred times by the time the node is idle.
    for _ in 0..100 {
        let _ = cri.runtime().status(StatusRequest { verbose: true }).await;
        let _ = cri
            .runtime()
            .list_containers(ListContainersRequest::default())
            .await;
    }
    let (resident, anonymous) = (memory(node.pid(), "VmRSS:"), memory(node.pid(), "RssAnon:"));
    println!("resident {unasked} kB, then {resident} kB, of which anonymous {anonymous} kB");
    assert!(anonymous < ANONYMOUS, "{anonymous} kB anonymous");
    if node::is_release() {
        let program = std::fs::metadata(node::binary()).unwrap().len();
        println!("figure: orlop {:.1} MB", program as f64 / 1e6);
        assert!(program < PROGRAM, "a program of {program} bytes");
        assert!(unasked < UNASKED, "{unasked} kB resident before any call");
        assert!(resident < RESIDENT, "{resident} kB resident");
    }
}
