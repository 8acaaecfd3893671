//! Exec and attach between the crate's own client and server, with real processes.

use std::time::{Duration, Instant};

use orlop_streaming::client::{ClientError, ClientStreams, attach, exec};
use orlop_streaming::{AttachRequest, TerminalSize};
use orlop_testkit::assert_contains;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use crate::fixture::{
    Collected, PROTOCOLS, command, command_with_input, outputs, over, run, serve,
};

#[tokio::test]
async fn output_error_output_and_exit_code_arrive() {
    let (server, _) = serve().await;
    for protocol in PROTOCOLS {
        let url = server
            .exec_url(command(&["sh", "-c", "echo out; echo err >&2; exit 3"]))
            .expect("an URL");
        let (streams, stdout, stderr) = outputs();
        let code = run(&url, protocol, streams).await;
        assert_eq!(
            (code, stdout.text(), stderr.text()),
            (3, "out\n".into(), "err\n".into())
        );
    }
}

#[tokio::test]
async fn the_end_of_input_reaches_the_process() {
    let (server, _) = serve().await;
    for protocol in PROTOCOLS {
        let request = command_with_input(&["sh", "-c", "wc -c; echo done"]);
        let url = server.exec_url(request).expect("an URL");
        let (mut streams, stdout, _) = outputs();
        streams.stdin = Some(Box::new(&b"twelve bytes"[..]));
        let code = run(&url, protocol, streams).await;
        assert_eq!((code, stdout.text()), (0, "12\ndone\n".to_owned()));
    }
}

#[tokio::test]
async fn large_transfers_arrive_whole_in_both_directions() {
    const SIZE: usize = 48 << 20;
    let data: Vec<u8> = (0..SIZE as u32 / 4)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    let digest = format!("{:x}", HexDigest(&data));
    let (server, _) = serve().await;
    for protocol in PROTOCOLS {
        let request = command_with_input(&["cat"]);
        let url = server.exec_url(request).expect("an URL");
        let (mut streams, stdout, _) = outputs();
        streams.stdin = Some(Box::new(std::io::Cursor::new(data.clone())));
        run(&url, protocol, streams).await;
        assert!(
            stdout.bytes() == data,
            "{protocol:?}: what came back differs"
        );

        let request = command_with_input(&["sha256sum"]);
        let url = server.exec_url(request).expect("an URL");
        let (mut streams, stdout, _) = outputs();
        streams.stdin = Some(Box::new(std::io::Cursor::new(data.clone())));
        run(&url, protocol, streams).await;
        assert_eq!(
            stdout.text().split(' ').next(),
            Some(digest.as_str()),
            "{protocol:?}"
        );
    }
}

struct HexDigest<'a>(&'a [u8]);

impl std::fmt::LowerHex for HexDigest<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Sha256::digest(self.0)
            .iter()
            .try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

#[tokio::test]
async fn a_slow_reader_holds_the_process_back_and_loses_nothing() {
    let (server, _) = serve().await;
    for protocol in PROTOCOLS {
        let url = server
            .exec_url(command(&["head", "-c", "30000000", "/dev/zero"]))
            .expect("an URL");
        let (mut near, far) = tokio::io::duplex(4096);
        let streams = ClientStreams {
            stdout: Some(Box::new(far)),
            stderr: Collected::default().boxed(),
            ..ClientStreams::default()
        };
        let options = over(protocol);
        let session = tokio::spawn(async move { exec(&url, &options, streams).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(
            !session.is_finished(),
            "{protocol:?}: nobody has read the output yet"
        );
        let mut count = 0;
        let mut buffer = vec![0; 65536];
        loop {
            let read = near.read(&mut buffer).await.expect("output");
            if read == 0 {
                break;
            }
            count += read;
        }
        assert_eq!(count, 30_000_000, "{protocol:?}");
        assert_eq!(session.await.expect("no panic").expect("a session"), 0);
    }
}

#[tokio::test]
async fn a_descendant_that_holds_the_output_does_not_hold_the_session() {
    let (server, _) = serve().await;
    for protocol in PROTOCOLS {
        let url = server
            .exec_url(command(&["sh", "-c", "sleep 20 & echo started; exit 5"]))
            .expect("an URL");
        let (streams, stdout, _) = outputs();
        let start = Instant::now();
        let code = run(&url, protocol, streams).await;
        assert_eq!((code, stdout.text()), (5, "started\n".to_owned()));
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "it waited for the descendant"
        );
    }
}

#[tokio::test]
async fn a_process_that_reads_nothing_does_not_block_a_talkative_client() {
    let (server, _) = serve().await;
    for protocol in PROTOCOLS {
        let request = command_with_input(&["sh", "-c", "exec <&-; sleep 0.3; echo over"]);
        let url = server.exec_url(request).expect("an URL");
        let (mut streams, stdout, _) = outputs();
        streams.stdin = Some(Box::new(tokio::io::repeat(b'x').take(64 << 20)));
        let code = run(&url, protocol, streams).await;
        assert_eq!((code, stdout.text()), (0, "over\n".to_owned()));
    }
}

#[tokio::test]
async fn a_terminal_has_the_clients_size_and_follows_it() {
    let (server, _) = serve().await;
    for protocol in PROTOCOLS {
        let mut request = command(&["sh", "-c", "read a; stty size; read b; stty size; exit 9"]);
        (request.tty, request.stdin, request.stderr) = (true, true, false);
        let url = server.exec_url(request).expect("an URL");
        let stdout = Collected::default();
        let (mut keyboard, stdin) = tokio::io::duplex(100);
        let (resize, sizes) = watch::channel(TerminalSize {
            width: 101,
            height: 33,
        });
        let streams = ClientStreams {
            stdin: Some(Box::new(stdin)),
            stdout: stdout.boxed(),
            stderr: None,
            resize: Some(sizes),
        };
        let options = over(protocol);
        let session = tokio::spawn(async move { exec(&url, &options, streams).await });
        tokio::time::sleep(Duration::from_millis(200)).await;
        keyboard.write_all(b"\r").await.expect("a session");
        stdout.wait_for("33 101").await;
        resize
            .send(TerminalSize {
                width: 80,
                height: 24,
            })
            .expect("a session");
        tokio::time::sleep(Duration::from_millis(200)).await;
        keyboard.write_all(b"\r").await.expect("a session");
        stdout.wait_for("24 80").await;
        assert_eq!(session.await.expect("no panic").expect("a session"), 9);
    }
}

#[tokio::test]
async fn a_client_that_vanishes_takes_its_process_along() {
    let (server, backend) = serve().await;
    for (count, protocol) in PROTOCOLS.into_iter().enumerate() {
        let request = command_with_input(&["sh", "-c", "echo ready; exec sleep 60"]);
        let url = server.exec_url(request).expect("an URL");
        let (mut streams, stdout, _) = outputs();
        streams.stdin = Some(Box::new(
            tokio::io::empty().chain(tokio::io::repeat(0).take(0)),
        ));
        let options = over(protocol);
        let session = tokio::spawn(async move { exec(&url, &options, streams).await });
        stdout.wait_for("ready").await;
        session.abort();
        backend.wait_for_kills(count + 1, "the killing").await;
    }
}

#[tokio::test]
async fn a_server_that_shuts_down_ends_its_sessions() {
    for protocol in PROTOCOLS {
        let (server, backend) = serve().await;
        let url = server
            .exec_url(command(&["sh", "-c", "echo ready; sleep 60"]))
            .expect("an URL");
        let (streams, stdout, _) = outputs();
        let options = over(protocol);
        let session = tokio::spawn(async move { exec(&url, &options, streams).await });
        stdout.wait_for("ready").await;
        let start = Instant::now();
        server.shutdown().await;
        assert!(
            start.elapsed() < Duration::from_secs(4),
            "the session did not give way"
        );
        assert_eq!(backend.kills(), 1);
        let result = session.await.expect("no panic");
        assert!(matches!(result, Err(ClientError::Lost)), "{result:?}");
    }
}

#[tokio::test]
async fn a_failure_to_start_is_told() {
    let (server, _) = serve().await;
    for protocol in PROTOCOLS {
        let url = server
            .exec_url(command(&["/no/such/program"]))
            .expect("an URL");
        let (streams, ..) = outputs();
        let error = exec(&url, &over(protocol), streams)
            .await
            .expect_err("no session");
        let message = error.to_string();
        assert_contains!(message, "error executing command in container");
        assert!(message.contains("/no/such/program"), "{message}");
    }
}

#[tokio::test]
async fn attaching_passes_bytes_and_errors() {
    let (server, _) = serve().await;
    for protocol in PROTOCOLS {
        let request = AttachRequest {
            container_id: "echo".to_owned(),
            stdin: true,
            stdout: true,
            ..AttachRequest::default()
        };
        let stdout = Collected::default();
        let streams = || ClientStreams {
            stdin: Some(Box::new(&b"hello"[..])),
            stdout: stdout.boxed(),
            ..ClientStreams::default()
        };
        let url = server.attach_url(request.clone()).expect("an URL");
        attach(&url, &over(protocol), streams())
            .await
            .expect("a session");
        assert_eq!(stdout.text(), "hello");
        let unknown = AttachRequest {
            container_id: "gone".to_owned(),
            ..request
        };
        let url = server.attach_url(unknown).expect("an URL");
        let error = attach(&url, &over(protocol), streams())
            .await
            .expect_err("no container");
        assert!(error.to_string().contains("no such container"), "{error}");
    }
}
