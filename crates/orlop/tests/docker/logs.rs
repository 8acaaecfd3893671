//! Logs: the engine's, written on into files of the CRI's format.

use crate::world::{eventually, world};

/// The numbers that a script has counted to, in the order of the files.
fn counted(texts: &[String]) -> Vec<u32> {
    texts
        .iter()
        .flat_map(|text| text.lines())
        .map(|line| {
            line.rsplit(' ')
                .next()
                .unwrap()
                .parse()
                .expect("a whole line")
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_over_rotations_and_restarts() {
    let mut world = world!();
    let script = "i=0; while [ $i -lt 600 ]; do echo $i; i=$((i+1)); \
                  [ $((i % 20)) = 0 ] && sleep 0.1; done";
    let (pod, _, id) = world.run_script("rotate", script).await;
    let log = pod.logs().join("main.log");
    let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default();
    let mut old = Vec::new();
    for round in 0..3 {
        let before = read(&log).len();
        eventually("more in the log", || read(&log).len() > before).await;
        let rotated = log.with_file_name(format!("main.log.20260101-00000{round}"));
        std::fs::rename(&log, &rotated).unwrap();
        old.push(rotated);
        if round == 1 {
            // In the middle: the daemon dies between the two steps of a rotation.
            world.crash().await;
        } else {
            world.cri.reopen_log(&id).await.unwrap();
        }
    }
    world.cri.wait_exited(&id).await;
    eventually("a complete log", || read(&log).ends_with(" 599\n")).await;
    old.push(log);
    let texts: Vec<String> = old.iter().map(|path| read(path)).collect();
    assert_eq!(counted(&texts), (0..600).collect::<Vec<_>>());
    assert!(world.engine.docker(&["logs", &id]).ends_with("\n599"));
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_container_wrote_last_is_there_when_it_has_ended() {
    let world = world!();
    for round in 0..5 {
        let script = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo last >&2";
        let (pod, _, id) = world.run_script(&format!("fast{round}"), script).await;
        world.cri.wait_exited(&id).await;
        let text = std::fs::read_to_string(pod.logs().join("main.log")).unwrap();
        assert_eq!(text.lines().count(), 2001);
        assert!(text.contains("stderr F last\n"));
    }
    world.node.finish().await;
}
