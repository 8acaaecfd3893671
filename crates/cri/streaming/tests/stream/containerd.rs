//! The client with another server: that of containerd, built on Kubernetes' own library.

use std::time::Duration;

use orlop_streaming::TerminalSize;
use orlop_streaming::client::{ClientStreams, Forward, Protocol, attach, exec, port_forward};
use orlop_testkit::{ContainerSpec, Cri, Node, Registry, machine, skip_unless};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::fixture::{Collected, PROTOCOLS, outputs, over, run};

/// The three requests for URLs, as they are on the wire.
#[derive(Clone, PartialEq, prost::Message)]
struct Exec {
    #[prost(string, tag = "1")]
    container_id: String,
    #[prost(string, repeated, tag = "2")]
    cmd: Vec<String>,
    #[prost(bool, tag = "3")]
    tty: bool,
    #[prost(bool, tag = "4")]
    stdin: bool,
    #[prost(bool, tag = "5")]
    stdout: bool,
    #[prost(bool, tag = "6")]
    stderr: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Attach {
    #[prost(string, tag = "1")]
    container_id: String,
    #[prost(bool, tag = "2")]
    stdin: bool,
    #[prost(bool, tag = "3")]
    tty: bool,
    #[prost(bool, tag = "4")]
    stdout: bool,
    #[prost(bool, tag = "5")]
    stderr: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PortForward {
    #[prost(string, tag = "1")]
    pod_sandbox_id: String,
    #[prost(int32, repeated, tag = "2")]
    port: Vec<i32>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Answer {
    #[prost(string, tag = "1")]
    url: String,
}

/// A container that sends back what it is sent.
struct World {
    cri: Cri,
    pod: String,
    container: String,
    _registry: Registry,
    // Last: the daemon outlives its clients.
    _node: Node,
}

impl World {
    async fn start() -> Self {
        let node = Node::containerd().start().await;
        let cri = node.cri().await;
        let (registry, image) = Registry::with_busybox().await;
        cri.pull(&image).await.expect("pull");
        let spec = node.pod("stream");
        let pod = cri.run_pod(&spec).await.expect("a pod");
        let echo = ContainerSpec::new("main", &image)
            .shell("while read line; do echo got $line; done; sleep 600")
            .with(|config| config.stdin = true);
        let container = cri.run(&pod, &spec, &echo).await.expect("a container");
        Self {
            cri,
            pod,
            container,
            _registry: registry,
            _node: node,
        }
    }

    async fn exec(&self, cmd: &[&str], stdin: bool, tty: bool) -> String {
        let request = Exec {
            container_id: self.container.clone(),
            cmd: cmd.iter().map(ToString::to_string).collect(),
            tty,
            stdin,
            stdout: true,
            stderr: !tty,
        };
        let answer = self
            .cri
            .call("/runtime.v1.RuntimeService/Exec", request)
            .await;
        let Answer { url } = answer.expect("an URL");
        url
    }
}

#[tokio::test]
async fn the_client_works_with_containerd() {
    skip_unless!(machine::can_run_pods());
    skip_unless!(machine::has_program("containerd"));
    let world = Box::pin(World::start()).await;
    for protocol in PROTOCOLS {
        let url = world
            .exec(
                &["sh", "-c", "echo out; echo err >&2; exit 3"],
                false,
                false,
            )
            .await;
        let (streams, stdout, stderr) = outputs();
        let code = run(&url, protocol, streams).await;
        assert_eq!(
            (code, stdout.text(), stderr.text()),
            (3, "out\n".into(), "err\n".into())
        );

        let url = world
            .exec(&["head", "-c", "20000000", "/dev/zero"], false, false)
            .await;
        let (streams, stdout, _) = outputs();
        let code = run(&url, protocol, streams).await;
        assert_eq!(
            (code, stdout.bytes().len()),
            (0, 20_000_000),
            "{protocol:?}"
        );

        let url = world
            .exec(&["sh", "-c", "read line; stty size"], true, true)
            .await;
        let (mut keyboard, stdin) = tokio::io::duplex(64);
        let (_resize, sizes) = watch::channel(TerminalSize {
            width: 99,
            height: 22,
        });
        let stdout = Collected::default();
        let streams = ClientStreams {
            stdin: Some(Box::new(stdin)),
            stdout: stdout.boxed(),
            stderr: None,
            resize: Some(sizes),
        };
        let type_later = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            keyboard.write_all(b"\r").await.expect("a session");
            std::future::pending::<()>().await;
        };
        let options = over(protocol);
        let code = tokio::select! {
            code = exec(&url, &options, streams) => code,
            () = type_later => unreachable!("it never ends"),
        };
        assert_eq!(code.expect("a session"), 0);
        assert!(
            stdout.text().contains("22 99"),
            "{protocol:?}: {}",
            stdout.text()
        );
    }
    // The end of input can be told over SPDY, and over WebSocket only from version 5 on.
    let data = b"0123456789abcdef".repeat(1 << 20);
    let url = world.exec(&["wc", "-c"], true, false).await;
    let (mut streams, stdout, _) = outputs();
    streams.stdin = Some(Box::new(std::io::Cursor::new(data.clone())));
    exec(&url, &over(Protocol::Spdy), streams)
        .await
        .expect("a session");
    assert_eq!(stdout.text().trim(), data.len().to_string());

    attached(&world).await;
    forwarded(&world).await;
}

async fn attached(world: &World) {
    for protocol in PROTOCOLS {
        let request = Attach {
            container_id: world.container.clone(),
            stdin: true,
            tty: false,
            stdout: true,
            stderr: true,
        };
        let answer = world
            .cri
            .call("/runtime.v1.RuntimeService/Attach", request)
            .await;
        let Answer { url } = answer.expect("an URL");
        let (mut streams, stdout, _) = outputs();
        let (mut keyboard, stdin) = tokio::io::duplex(64);
        streams.stdin = Some(Box::new(stdin));
        let options = over(protocol);
        let session = tokio::spawn(async move { attach(&url, &options, streams).await });
        keyboard.write_all(b"hello\n").await.expect("a session");
        stdout.wait_for("got hello").await;
        session.abort();
    }
}

async fn forwarded(world: &World) {
    // The pod is in the host's network, so its ports are this machine's.
    let target = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = target.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = target.accept().await {
            let mut text = [0; 5];
            stream.read_exact(&mut text).await.expect("a request");
            text.reverse();
            stream.write_all(&text).await.expect("a reader");
        }
    });
    let request = PortForward {
        pod_sandbox_id: world.pod.clone(),
        port: vec![i32::from(port)],
    };
    let answer = world
        .cri
        .call("/runtime.v1.RuntimeService/PortForward", request)
        .await;
    let Answer { url } = answer.expect("an URL");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let local = listener.local_addr().expect("an address");
    let stop = CancellationToken::new();
    let session = tokio::spawn({
        let (stop, forwards) = (stop.clone(), vec![Forward { listener, port }]);
        async move { port_forward(&url, &over(Protocol::Spdy), forwards, stop, |_| {}).await }
    });
    for _ in 0..3 {
        let mut stream = TcpStream::connect(local).await.expect("the forwarded port");
        stream.write_all(b"hello").await.expect("a connection");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        assert_eq!(answer, "olleh");
    }
    stop.cancel();
    session.await.expect("no panic").expect("ended by us");
}
