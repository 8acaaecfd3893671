//! Logs as they grow.

use std::time::{Duration, Instant};

use orlop_kuberuntime::manager::LogQuery;
use serde_json::json;

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_rotated_and_followed_over_that() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    let world = World::with(|options| {
        options.logs.max_size = 20_000;
        options.logs.max_files = 3;
        options.logs.period = Duration::from_millis(300);
    })
    .await;
    let main = world.sh("main", "n=0; while [ $n -lt 2000 ]; do n=$((n+1)); echo line $n of a log that grows; [ $((n % 100)) = 0 ] && sleep 0.2; done; sleep 1");
    let uid = world.run(
        "talks",
        json!({"restartPolicy": "Never", "containers": [main]}),
    );
    world.ready(&uid).await;
    let query = LogQuery {
        follow: true,
        ..LogQuery::default()
    };
    let reader = world.manager.container_logs(&uid, "main", query).await;
    let mut reader = reader.unwrap();
    let mut text = String::new();
    let mut parts = 0;
    let dir = std::fs::read_dir(world.node.scratch().path("podlogs"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while let Some(part) = reader.next().await {
        text.push_str(&String::from_utf8_lossy(&part.unwrap()));
        parts = parts.max(std::fs::read_dir(dir.path().join("main")).unwrap().count());
        assert!(Instant::now() < deadline, "it does not end: {}", text.len());
    }
    let numbers: Vec<usize> = text
        .lines()
        .map(|line| line.split(' ').nth(1).unwrap().parse().unwrap())
        .collect();
    assert_eq!(
        numbers,
        (1..=2000).collect::<Vec<_>>(),
        "every line once and in order"
    );
    assert!((2..=4).contains(&parts), "{parts} files at the most");
    world.finish().await;
}
