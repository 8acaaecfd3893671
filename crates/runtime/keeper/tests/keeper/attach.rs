//! Joining the streams of running containers.

use std::io::{PipeReader, PipeWriter, Read, Write};

use orlop_launch::{AttachStreams, FailureKind, TerminalSize};

use crate::support::{self, Pod};

/// The test's ends of an attachment.
struct Ends {
    stdin: PipeWriter,
    stdout: PipeReader,
    stderr: PipeReader,
    number: u64,
}

async fn attach(pod: &Pod, id: &str) -> Ends {
    let (theirs_in, stdin) = std::io::pipe().unwrap();
    let (stdout, theirs_out) = std::io::pipe().unwrap();
    let (stderr, theirs_err) = std::io::pipe().unwrap();
    let streams = AttachStreams {
        stdin: Some(theirs_in.into()),
        stdout: Some(theirs_out.into()),
        stderr: Some(theirs_err.into()),
    };
    Ends {
        number: pod.keeper.attach(id, streams).await.unwrap(),
        stdin,
        stdout,
        stderr,
    }
}

async fn read(from: PipeReader, count: usize) -> (String, PipeReader) {
    let read = tokio::task::spawn_blocking(move || {
        let mut from = from;
        let mut bytes = vec![0; count];
        from.read_exact(&mut bytes).unwrap();
        (String::from_utf8(bytes).unwrap(), from)
    });
    tokio::time::timeout(support::LIMIT, read)
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn watchers_come_late_and_go_and_the_container_goes_on() {
    let mut pod = Pod::new().await;
    let script =
        "echo begin; while read line; do echo out $line; echo err $line >&2; done; echo end";
    let mut wish = pod.script("c1", script);
    wish.create.stdin = true;
    pod.run(&wish).await;
    pod.wait_for_log("c1", "begin").await;

    let mut first = attach(&pod, "c1").await;
    first.stdin.write_all(b"1\n").unwrap();
    let (text, stdout) = read(first.stdout, "out 1\n".len()).await;
    assert_eq!(text, "out 1\n");
    // Said a moment later, and not to be heard by the next.
    pod.wait_for_log("c1", "err 1").await;
    let second = attach(&pod, "c1").await;
    first.stdin.write_all(b"2\n").unwrap();
    assert_eq!(read(stdout, 6).await.0, "out 2\n");
    let (text, stdout) = read(second.stdout, 6).await;
    assert_eq!(text, "out 2\n");
    assert_eq!(read(second.stderr, 6).await.0, "err 2\n");
    assert_eq!(
        pod.keeper.list().await.unwrap().containers[0].attachments,
        2
    );

    // The first goes away, with its input; the container's stays open.
    drop((first.stdin, first.stderr));
    let mut input = second.stdin;
    input.write_all(b"3\n").unwrap();
    assert_eq!(read(stdout, 6).await.0, "out 3\n");
    pod.keeper.detach(second.number).await.unwrap();
    assert!(input.write_all(b"4\n").is_err());

    let third = attach(&pod, "c1").await;
    pod.keeper.kill("c1", 9).await.unwrap();
    pod.exit_of("c1").await;
    assert_eq!(support::read_to_end(third.stdout).await, "");
    assert_eq!(
        pod.keeper.list().await.unwrap().containers[0].attachments,
        0
    );
    assert_eq!(pod.logged("c1").lines().count(), 7);
}

#[tokio::test]
async fn stdin_once_ends_with_its_first_attachment() {
    let mut pod = Pod::new().await;
    let mut wish = pod.script("c1", "cat; echo; echo done");
    wish.create.stdin = true;
    wish.create.stdin_once = true;
    pod.run(&wish).await;
    let mut ends = attach(&pod, "c1").await;
    // More than a pipe holds, so that some has to wait.
    let text = "x".repeat(300_000);
    let writer = {
        let text = text.clone();
        std::thread::spawn(move || ends.stdin.write_all(text.as_bytes()).unwrap())
    };
    let got = support::read_to_end(ends.stdout).await;
    writer.join().unwrap();
    assert!(got == format!("{text}\ndone\n"), "{} bytes", got.len());
    assert_eq!(pod.exit_of("c1").await.code, 0);
}

#[tokio::test]
async fn a_watcher_that_does_not_read_holds_up_nobody() {
    let mut pod = Pod::new().await;
    let script = "read go; head -c 3000000 /dev/zero | tr '\\0' x; echo over";
    let mut wish = pod.script("c1", script);
    wish.create.stdin = true;
    pod.run(&wish).await;
    let lazy = attach(&pod, "c1").await;
    let mut eager = attach(&pod, "c1").await;
    eager.stdin.write_all(b"go\n").unwrap();
    let all = support::read_to_end(eager.stdout).await;
    assert_eq!(all.len(), 3_000_000 + "over\n".len());
    assert_eq!(pod.exit_of("c1").await.code, 0);
    assert_eq!(pod.logged("c1").replace('\n', "").len(), 3_000_004);
    // It sees the beginning and then, not having kept up, the end.
    let seen = support::read_to_end(lazy.stdout).await.len();
    assert!(seen > 0 && seen < 2_000_000, "{seen}");
}

#[tokio::test]
async fn many_watchers_that_do_not_read_hold_up_nobody_for_longer() {
    const WATCHERS: usize = 12;
    let pod = Pod::new().await;
    let script = "read go; head -c 5000000 /dev/zero | tr '\\0' x; echo over";
    let mut wish = pod.script("c1", script);
    wish.create.stdin = true;
    pod.run(&wish).await;
    let mut watchers = Vec::new();
    for number in 0..WATCHERS {
        let mut lazy = attach(&pod, "c1").await;
        // They stop at six places, at each of which the container would wait once; at every second one it has to.
        watchers.push(tokio::task::spawn_blocking(move || {
            let mut begin = vec![0; 1 + number % 6 * 600_000];
            lazy.stdout.read_exact(&mut begin).unwrap();
            lazy
        }));
    }
    let mut eager = attach(&pod, "c1").await;
    let begun = std::time::Instant::now();
    eager.stdin.write_all(b"go\n").unwrap();
    let all = support::read_to_end(eager.stdout).await;
    assert_eq!(all.len(), 5_000_000 + "over\n".len());
    let held_up = begun.elapsed().as_secs_f64();
    assert!(held_up < 5.0, "{held_up} seconds for {WATCHERS} watchers");
    for lazy in watchers {
        drop(lazy.await.unwrap());
    }
}

#[tokio::test]
async fn a_terminal_can_be_typed_at_resized_and_left() {
    let mut pod = Pod::new().await;
    let mut wish = pod.script(
        "c1",
        "while read line; do stty size; echo got $line; done; echo bye",
    );
    wish.config["process"]["terminal"] = true.into();
    wish.create.tty = true;
    wish.create.stdin = true;
    wish.create.stdin_once = true;
    wish.create.terminal_size = Some(TerminalSize {
        columns: 80,
        rows: 25,
    });
    pod.run(&wish).await;
    let mut ends = attach(&pod, "c1").await;
    ends.stdin.write_all(b"a\n").unwrap();
    pod.wait_for_log("c1", "got a").await;
    let size = TerminalSize {
        columns: 132,
        rows: 43,
    };
    pod.keeper.resize("c1", size).await.unwrap();
    ends.stdin.write_all(b"b\n").unwrap();
    pod.wait_for_log("c1", "got b").await;
    drop(ends.stdin);
    assert_eq!(pod.exit_of("c1").await.code, 0);
    let text = support::read_to_end(ends.stdout).await;
    assert_eq!(
        text,
        "a\r\n25 80\r\ngot a\r\nb\r\n43 132\r\ngot b\r\nbye\r\n"
    );
    let tags: Vec<String> = pod.log("c1").into_iter().map(|line| line.0).collect();
    assert!(tags.iter().all(|stream| stream == "stdout"), "{tags:?}");
}

#[tokio::test]
async fn a_container_that_has_ended_cannot_be_joined() {
    let mut pod = Pod::new().await;
    pod.run_script("c1", "true").await;
    pod.exit_of("c1").await;
    let (_ours, theirs) = std::io::pipe().unwrap();
    let streams = AttachStreams {
        stdout: Some(theirs.into()),
        ..AttachStreams::default()
    };
    let error = pod.keeper.attach("c1", streams).await.unwrap_err();
    assert_eq!(error.failure_kind(), Some(FailureKind::WrongState));
    let size = TerminalSize::default();
    assert!(pod.keeper.resize("c1", size).await.is_err());
}
