//! What the daemon tells of itself to people who look for what waits, and who holds its memory.

use std::process::Command;
use std::time::{Duration, Instant};

use orlop_cri_api::v1::ExecSyncRequest;
use orlop_testkit::node;
use orlop_testkit::process::run;
use serde_json::Value;

use crate::world::{World, ours};

fn look(world: &World, at: &str) -> Value {
    let mut debug = Command::new(node::binary());
    debug
        .args(["debug", at, "--socket"])
        .arg(world.node.socket());
    serde_json::from_slice(&run(&mut debug)).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn who_looks_sees_the_call_that_waits_and_for_how_long() {
    let world = ours!();
    let spec = world.container("main").command(&["sleep", "600"]);
    let running = world.run_container("waiting", &spec).await;
    let mut client = world.cri.runtime();
    let request = ExecSyncRequest {
        container_id: running.id.clone(),
        cmd: vec!["sleep".into(), "600".into()],
        timeout: 0,
    };
    let waiting = tokio::spawn(async move { client.exec_sync(request).await.map(drop) });
    let until = Instant::now() + Duration::from_secs(20);
    let tasks = loop {
        let tasks = look(&world, "tasks");
        let calls = tasks["calls"].as_array().expect("calls").clone();
        let call = calls.iter().find(|call| call["method"] == "ExecSync");
        if call.is_some_and(|call| call["for_ms"].as_u64() > Some(300)) {
            assert_eq!(call.expect("it is there")["client_pid"], std::process::id());
            break tasks;
        }
        assert!(Instant::now() < until, "{tasks:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(tasks["under_way"]["commands"], 1, "{tasks:#}");
    let threads = tasks["threads"].as_array().expect("threads");
    assert!(
        threads
            .iter()
            .any(|thread| thread["count"].as_u64() >= Some(1)),
        "{tasks:#}"
    );
    waiting.abort();

    let memory = look(&world, "memory");
    assert_eq!(memory["held"]["containers"], 1, "{memory:#}");
    let resident = |kind: &str| memory["mapped"][kind]["resident_bytes"].as_u64();
    assert!(resident("program") > Some(1 << 20), "{memory:#}");
    assert!(
        memory["timelines"]["spans"].as_u64() > Some(3),
        "{memory:#}"
    );
    assert!(
        memory["open_files"]["socket"].as_u64() > Some(0),
        "{memory:#}"
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_and_commands_work_while_a_profile_is_recorded() {
    let world = ours!();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("p.folded");
    let mut profile = Command::new(node::binary());
    profile
        .args(["debug", "profile", "--seconds", "600", "--socket"])
        .arg(world.node.socket())
        .arg("--output")
        .arg(&file);
    let mut profile = profile.spawn().expect("orlop");
    let until = Instant::now() + Duration::from_secs(10);
    let signals = |pid: u32, name: &str| {
        let line = orlop_testkit::process::status(pid, name);
        let set = line.split_whitespace().nth(1).expect("a set of signals");
        u64::from_str_radix(set, 16).expect("hexadecimal") >> (libc::SIGPROF - 1) & 1
    };
    while signals(world.node.pid(), "SigCgt:") == 0 {
        assert!(Instant::now() < until, "no handler");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for round in 0..3 {
        let name = format!("busy-{round}");
        let spec = world.container("main").command(&["sleep", "600"]);
        let running = world.run_container(&name, &spec).await;
        // A timer of the daemon's would end this program: it has no handler.
        let line =
            "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; grep SigIgn /proc/self/status";
        let done = world.cri.exec(&running.id, &["sh", "-c", line]).await;
        let done = done.expect("a command runs");
        let said = String::from_utf8_lossy(&done.stdout);
        assert_eq!(done.exit_code, 0, "{said}{:?}", done.stderr);
        let set = said.split_whitespace().nth(1).expect("a set of signals");
        let ignored = u64::from_str_radix(set, 16).expect("hexadecimal");
        assert_eq!(ignored >> (libc::SIGPROF - 1) & 1, 0, "{said}");
    }
    let keepers = orlop_testkit::process::processes(&["orlop-keeper"]);
    for keeper in keepers {
        assert_eq!(signals(keeper as u32, "SigIgn:"), 0);
    }
    let _ = profile.kill();
    let _ = profile.wait();
    world.finish().await;
}
