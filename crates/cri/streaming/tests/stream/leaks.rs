//! Nothing may be left of a session, however it ended.

use std::time::Duration;

use orlop_streaming::client::exec;
use tokio::runtime::Handle;

use crate::fixture::{PROTOCOLS, command, eventually, outputs, over, serve};

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("proc").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_leave_no_task_and_no_descriptor() {
    let (server, _) = serve().await;
    let session = async |protocol, round: u32| {
        let mut request = command(&["cat"]);
        request.stdin = true;
        let url = server.exec_url(request).expect("an URL");
        let (mut streams, stdout, _) = outputs();
        streams.stdin = Some(Box::new(&b"data"[..]));
        let options = over(protocol);
        if round % 3 == 2 {
            // Given up at some moment or other.
            let patience = Duration::from_micros(u64::from(round) * 97 % 4000);
            let _ = tokio::time::timeout(patience, exec(&url, &options, streams)).await;
        } else {
            exec(&url, &options, streams).await.expect("a session");
            assert_eq!(stdout.text(), "data");
        }
    };
    for protocol in PROTOCOLS {
        session(protocol, 0).await;
    }
    let tasks = || Handle::current().metrics().num_alive_tasks();
    // What was there before any session, with the listener's task.
    eventually("the end of the first sessions", || tasks() <= 1).await;
    let descriptors = open_descriptors();
    for round in 0..300 {
        session(PROTOCOLS[round as usize % 2], round).await;
    }
    eventually("the end of all tasks", || tasks() <= 1).await;
    eventually("the closing of all descriptors", || {
        open_descriptors() <= descriptors
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_sessions_run_side_by_side() {
    let (server, _) = serve().await;
    let mut sessions = Vec::new();
    for number in 0..200_u32 {
        let mut request = command(&["cat"]);
        request.stdin = true;
        let url = server.exec_url(request).expect("an URL");
        let protocol = PROTOCOLS[number as usize % 2];
        sessions.push(tokio::spawn(async move {
            let (mut streams, stdout, _) = outputs();
            let (mut keyboard, stdin) = tokio::io::duplex(64);
            streams.stdin = Some(Box::new(stdin));
            let mut options = over(protocol);
            options.timeout = Duration::from_mins(1);
            let run = tokio::spawn(async move { exec(&url, &options, streams).await });
            for line in ["first", "second"] {
                let text = format!("{line} {number}\n");
                tokio::io::AsyncWriteExt::write_all(&mut keyboard, text.as_bytes())
                    .await
                    .expect("a session");
                stdout.wait_for(&text).await;
            }
            drop(keyboard);
            run.await.expect("no panic").expect("a session")
        }));
    }
    for session in sessions {
        assert_eq!(session.await.expect("no panic"), 0);
    }
}
