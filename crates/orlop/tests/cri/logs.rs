//! Container output in log files.

use std::time::Duration;

use orlop_testkit::cri::read_log;

use crate::world::world;

#[tokio::test]
async fn both_streams_are_kept_in_order_and_whole() {
    let world = world!();
    let script = "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done; echo oops >&2";
    let running = world.run_script("order", script).await;
    world.cri.wait_exited(&running.id).await;
    let expected: Vec<_> = (0..5000).map(|n| format!("line {n}")).collect();
    if world.node.is_peer() {
        // containerd may tell of an exit before it has written the last lines.
        orlop_testkit::wait_until!(
            Duration::from_secs(10),
            running.stdout().lines().count() >= expected.len(),
            "lines are missing"
        );
    }
    assert!(
        running.stdout().lines().eq(&expected),
        "lines are missing or out of order"
    );
    assert_eq!(running.stream("stderr"), "oops\n");
    let log = read_log(&running.pod.logs().join("main.log"));
    assert!(
        log.iter().all(|line| line.time.contains('.')),
        "no fractions of a second: {:?}",
        log[0]
    );
    world.finish().await;
}

#[tokio::test]
async fn long_lines_are_split_and_bytes_kept() {
    let world = world!();
    let script = "head -c 40000 /dev/zero | tr '\\0' x; echo; printf 'a\\377\\0b\\n'; printf end";
    let running = world.run_script("long", script).await;
    world.cri.wait_exited(&running.id).await;
    let log = read_log(&running.pod.logs().join("main.log"));
    let long: Vec<_> = log
        .iter()
        .take_while(|line| line.content.starts_with(b"x"))
        .collect();
    assert!(
        long.len() >= 3,
        "a line of 40 000 bytes in {} parts",
        long.len()
    );
    assert!(long.iter().all(|line| line.content.len() <= 16 << 10));
    assert_eq!(
        long.iter().map(|line| line.content.len()).sum::<usize>(),
        40_000
    );
    let (last, heads) = long.split_last().expect("several");
    assert!(heads.iter().all(|line| line.partial) && !last.partial);
    let rest: Vec<_> = log[long.len()..]
        .iter()
        .map(|line| line.content.as_slice())
        .collect();
    assert_eq!(rest, [&b"a\xff\0b"[..], b"end"]);
    world.finish().await;
}

#[tokio::test]
async fn a_rotated_log_is_opened_anew() {
    let world = world!();
    let script = "while :; do echo tick; sleep 0.02; done";
    let running = world.run_script("rotated", script).await;
    let log = running.pod.logs().join("main.log");
    let old = running.pod.logs().join("main.log.1");
    wait_for_lines(&log, 2).await;
    std::fs::rename(&log, &old).expect("rotate");
    world.cri.reopen_log(&running.id).await.expect("reopen");
    wait_for_lines(&log, 2).await;
    assert!(read_log(&old).len() >= 2);
    world.cri.stop(&running.id, 0).await.expect("stop");
    let stopped = world.cri.reopen_log(&running.id).await;
    stopped.expect_err("an exited container writes no log");
    world.finish().await;
}

async fn wait_for_lines(path: &std::path::Path, count: usize) {
    let waited = async {
        while std::fs::read_to_string(path).map_or(0, |text| text.lines().count()) < count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waited)
        .await
        .expect("lines appear");
}
