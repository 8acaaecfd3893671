//! Attach, port-forward and followed logs through the agent, as kubectl asks for them.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use orlop_streaming::client::{
    ClientOptions, ClientStreams, Forward, Protocol, attach, exec, port_forward,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::api::{address, trust};
use crate::world::{Agent, SOON, World, world};

const BOTH: [Protocol; 2] = [Protocol::Spdy, Protocol::WebSocket];

async fn options(agent: &Agent, protocol: Protocol) -> (String, ClientOptions) {
    let port = address(agent).await.port();
    let options = ClientOptions {
        protocol,
        tls: Some(trust(agent, None)),
        server_name: None,
        timeout: SOON,
    };
    (format!("https://localhost:{port}"), options)
}

fn pod(world: &World, name: &str, container: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  \
         terminationGracePeriodSeconds: 0\n  containers:\n  - name: main\n    image: {}\n    \
         imagePullPolicy: Never\n    {container}\n",
        world.busybox
    )
}

async fn read(mut from: impl tokio::io::AsyncRead + Unpin, wanted: &str) -> String {
    let mut text = Vec::new();
    let work = async {
        while String::from_utf8_lossy(&text) != wanted {
            if from.read_buf(&mut text).await.unwrap_or(0) == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(SOON, work).await;
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_attached_to_and_told_the_end_of_its_input() {
    let world = world!();
    let mut agent = world.agent(&["--anonymous-auth"]);
    for (name, protocol) in ["spdy", "websocket"].into_iter().zip(BOTH) {
        let line = "stdin: true\n    stdinOnce: true\n    command: [sh, -c, 'cat; echo; echo over; sleep 1']";
        world.write("a.yaml", &pod(&world, name, line));
        agent.ready(&format!("{name}-n1")).await;
        let (url, options) = options(&agent, protocol).await;
        let url = format!("{url}/attach/default/{name}-n1/main?input=1&output=1");
        let (near, far) = tokio::io::duplex(4096);
        let (mut input, their_input) = tokio::io::duplex(4096);
        let streams = ClientStreams {
            stdin: Some(Box::new(their_input)),
            stdout: Some(Box::new(far)),
            ..ClientStreams::default()
        };
        let session = tokio::spawn(async move { attach(&url, &options, streams).await });
        input.write_all(b"word").await.unwrap();
        drop(input);
        let output = read(near, "word\nover\n").await;
        let ended = tokio::time::timeout(SOON, session).await.unwrap().unwrap();
        assert!(
            output == "word\nover\n" && ended.is_ok(),
            "{name}: {output:?}, {ended:?}\n{}",
            agent.process.log()
        );
    }
    agent.finish(&world).await;
    world.finish().await;
}

/// What comes back of what is sent.
async fn echoed(to: SocketAddr, sent: &[u8]) -> Vec<u8> {
    let connection = TcpStream::connect(to).await.unwrap();
    let (mut from, mut to) = connection.into_split();
    let all = sent.to_vec();
    // Where nobody listens it ends early.
    let writer = tokio::spawn(async move {
        let written = to.write_all(&all).await;
        written.is_ok() && to.shutdown().await.is_ok()
    });
    let mut back = Vec::new();
    let got = tokio::time::timeout(SOON, from.read_to_end(&mut back)).await;
    assert!(got.is_ok(), "{} bytes, and no end", back.len());
    writer.await.unwrap();
    back
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_a_pod_is_reached_over_either_protocol() {
    let world = world!();
    let line = "command: [sh, -c, 'while :; do nc -l -p 8080 -e cat; done']\n    ports:\n    - containerPort: 8080";
    world.write("a.yaml", &pod(&world, "a", line));
    let mut agent = world.agent(&["--anonymous-auth"]);
    agent.ready("a-n1").await;
    for protocol in BOTH {
        let (url, options) = options(&agent, protocol).await;
        let url = format!("{url}/portForward/default/a-n1");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = listener.local_addr().unwrap();
        let forwards = vec![Forward {
            listener,
            port: 8080,
        }];
        let stop = CancellationToken::new();
        let events = Arc::new(Mutex::new(Vec::new()));
        let (told, until) = (Arc::clone(&events), stop.clone());
        let session = tokio::spawn(async move {
            port_forward(&url, &options, forwards, until, move |event| {
                told.lock().unwrap().push(event);
            })
            .await
        });
        // More than any buffer on the way holds.
        let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        // The server of the pod takes a moment to listen, and again after each connection.
        let mut tries = 0;
        let back = loop {
            let back = echoed(near, &sent).await;
            tries += 1;
            if !back.is_empty() || tries == 50 {
                break back;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert!(
            back == sent,
            "{protocol:?}: {} bytes came back, {events:?}",
            back.len()
        );
        stop.cancel();
        session.await.unwrap().unwrap();
    }
    agent.finish(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn much_goes_through_a_command_and_its_failure_is_told() {
    let world = world!();
    world.write("a.yaml", &world.sleeper("a", "", ""));
    let mut agent = world.agent(&["--anonymous-auth"]);
    agent.ready("a-n1").await;
    for protocol in BOTH {
        let (url, options) = options(&agent, protocol).await;
        let url = format!("{url}/exec/default/a-n1/main");
        let input: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 249) as u8).collect();
        let (mut near, far) = tokio::io::duplex(1 << 16);
        let (mut errors, far_errors) = tokio::io::duplex(1 << 16);
        let streams = ClientStreams {
            stdin: Some(Box::new(std::io::Cursor::new(input.clone()))),
            stdout: Some(Box::new(far)),
            stderr: Some(Box::new(far_errors)),
            ..ClientStreams::default()
        };
        let command = format!(
            "{url}?command=sh&command=-c&command=cat;echo%20no%20%3E%262;exit%2042&input=1&output=1&error=1"
        );
        let session = tokio::spawn({
            let options = options.clone();
            async move { exec(&command, &options, streams).await }
        });
        let (mut output, mut complaint) = (Vec::new(), String::new());
        let reading = async {
            tokio::try_join!(
                near.read_to_end(&mut output),
                errors.read_to_string(&mut complaint)
            )
        };
        tokio::time::timeout(SOON, reading).await.unwrap().unwrap();
        assert!(output == input, "{protocol:?}: {} bytes", output.len());
        assert_eq!(complaint, "no\n");
        assert_eq!(session.await.unwrap().unwrap(), 42, "{protocol:?}");

        // What the runtime refuses is refused before there is a session.
        let none = format!("{url}?command=/no/such/program&output=1");
        let (_near, far) = tokio::io::duplex(64);
        let streams = ClientStreams {
            stdout: Some(Box::new(far)),
            ..ClientStreams::default()
        };
        let code = exec(&none, &options, streams).await;
        assert!(!matches!(code, Ok(0)), "{protocol:?}: {code:?}");
        let missing = format!("{url}x?command=true&output=1");
        let error = exec(&missing, &options, ClientStreams::default())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("404"), "{protocol:?}: {error}");
    }
    agent.finish(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_followed_over_http_until_the_container_ends() {
    let world = world!();
    let line = "command: [sh, -c, 'i=0; while [ $i -lt 3000 ]; do echo line $i of many; i=$((i + 1)); [ $((i % 100)) = 0 ] && sleep 0.1; done']";
    let text =
        pod(&world, "a", line).replace("  containers:", "  restartPolicy: Never\n  containers:");
    world.write("a.yaml", &text);
    // Rotated on the way, several times.
    let config = world.node.scratch().path("kubelet.yaml");
    std::fs::write(
        &config,
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         containerLogMaxSize: 16Ki\ncontainerLogMaxFiles: 20\ncontainerLogMonitorInterval: 3s\n",
    )
    .unwrap();
    let mut agent = world.agent(&["--config", config.to_str().unwrap()]);
    agent
        .until("a-n1", "begun", |pod| {
            pod["status"]["phase"] == "Running" || pod["status"]["phase"] == "Succeeded"
        })
        .await;
    let mut stream = UnixStream::connect(&agent.socket).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(
        stream,
        "GET /containerLogs/default/a-n1/main?follow=true HTTP/1.0\r\nHost: node\r\n\r\n"
    )
    .unwrap();
    let begin = Instant::now();
    let mut answer = String::new();
    let mut buffer = [0; 4096];
    let mut first = None;
    loop {
        let read = stream.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        answer.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        if first.is_none() && answer.contains("line 0 of many\n") {
            first = Some(begin.elapsed());
        }
    }
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let lines: Vec<String> = (0..3000).map(|i| format!("line {i} of many\n")).collect();
    let expected = lines.concat();
    assert!(
        body == expected,
        "{} bytes instead of {}",
        body.len(),
        expected.len()
    );
    assert!(first.unwrap() < Duration::from_secs(2), "{first:?}");
    agent
        .until("a-n1", "over", |pod| pod["status"]["phase"] == "Succeeded")
        .await;
    agent.finish(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_follows_more_logs_of_a_pod_than_it_may_is_refused_and_keeps_no_other_pod_s_back() {
    const OF_POD: usize = 32;
    let world = world!();
    let line = "command: [sh, -c, 'echo begun; exec sleep 600']";
    for name in ["a", "b"] {
        world.write(&format!("{name}.yaml"), &pod(&world, name, line));
    }
    let mut agent = world.agent(&[]);
    for name in ["a-n1", "b-n1"] {
        agent.ready(name).await;
    }
    let follow = |pod: &str| {
        let mut stream = UnixStream::connect(&agent.socket).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        write!(
            stream,
            "GET /containerLogs/default/{pod}/main?follow=true HTTP/1.0\r\nHost: node\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        let mut buffer = [0; 4096];
        // What is followed does not end, and what is refused does.
        while !answer.ends_with("begun\n") {
            match stream.read(&mut buffer).unwrap() {
                0 => break,
                read => answer.push_str(std::str::from_utf8(&buffer[..read]).unwrap()),
            }
        }
        let status: u16 = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer, stream)
    };
    let mut followed: Vec<_> = (0..OF_POD).map(|_| follow("a-n1")).collect();
    assert!(followed.iter().all(|(status, ..)| *status == 200));
    let (status, answer, _) = follow("a-n1");
    assert_eq!(status, 429, "{answer}");
    assert!(answer.contains("32"), "{answer}");
    assert_eq!(follow("b-n1").0, 200);
    // Who leaves makes room.
    followed.pop();
    orlop_testkit::wait_until!(SOON, follow("a-n1").0 == 200, "no thread is given back");
    drop(followed);
    agent.finish(&world).await;
    world.finish().await;
}
