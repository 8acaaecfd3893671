//! Port-forwarding between the crate's own client and server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use orlop_streaming::PortForwardRequest;
use orlop_streaming::client::{Forward, ForwardEvent, Protocol, port_forward};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fixture::{self, PROTOCOLS, over, serve};

/// A forwarded port, with all that happened.
struct Forwarded {
    local: u16,
    events: Arc<Mutex<Vec<ForwardEvent>>>,
    stop: CancellationToken,
    session: JoinHandle<()>,
}

impl Forwarded {
    async fn start(url: String, protocol: Protocol, port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let local = listener.local_addr().expect("an address").port();
        let events = Arc::new(Mutex::new(Vec::new()));
        let stop = CancellationToken::new();
        let session = {
            let (events, stop) = (events.clone(), stop.clone());
            tokio::spawn(async move {
                let report = move |event| events.lock().expect("no panic").push(event);
                let forwards = vec![Forward { listener, port }];
                port_forward(&url, &over(protocol), forwards, stop, report)
                    .await
                    .expect("ended by us");
            })
        };
        Self {
            local,
            events,
            stop,
            session,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.local))
            .await
            .expect("the forwarded port")
    }

    async fn stop(self) {
        self.stop.cancel();
        self.session.await.expect("the session ends");
    }
}

fn request() -> PortForwardRequest {
    PortForwardRequest {
        pod_id: "p".to_owned(),
        ports: Vec::new(),
    }
}

/// A server in the "pod" that reverses what it is sent, once it knows that this was all.
async fn reversing_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut text = Vec::new();
                stream.read_to_end(&mut text).await.expect("a request");
                text.reverse();
                stream.write_all(&text).await.expect("a reader");
            });
        }
    });
    port
}

#[tokio::test]
async fn many_connections_share_a_session_and_half_close_passes_through() {
    let port = reversing_server().await;
    let (server, _) = serve().await;
    for protocol in PROTOCOLS {
        let url = server.port_forward_url(request()).expect("an URL");
        let forwarded = Forwarded::start(url, protocol, port).await;
        let mut clients = Vec::new();
        for number in 0..40_usize {
            let mut stream = forwarded.connect().await;
            clients.push(tokio::spawn(async move {
                let text: Vec<u8> = (0..number * 5_000).map(|at| (at % 251) as u8).collect();
                let done = stream.write_all(&text).await;
                done.expect("a forwarded connection");
                stream.shutdown().await.expect("a forwarded connection");
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).await.expect("an answer");
                answer.reverse();
                assert!(
                    answer == text,
                    "connection {number} got something else back"
                );
            }));
        }
        for client in clients {
            client.await.expect("every client is content");
        }
        forwarded.stop().await;
    }
}

/// A server in the "pod" that answers before it has read the request, and leaves the rest of it
/// unread: its end is a reset.
async fn hasty_server(answer: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                stream.read_u8().await.expect("a request");
                let done = stream.write_all(&vec![b'a'; answer]).await;
                done.expect("a reader");
                // The answer has left by then, and more of the request has come.
                tokio::time::sleep(Duration::from_millis(300)).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn an_answer_before_a_reset_comes_through_whole() {
    const ANSWER: usize = 900_000;
    let port = hasty_server(ANSWER).await;
    let (server, _) = serve().await;
    for protocol in PROTOCOLS {
        let url = server.port_forward_url(request()).expect("an URL");
        let forwarded = Forwarded::start(url, protocol, port).await;
        // A small window keeps most of the answer on its way until it is read.
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(8192).expect("a small buffer");
        let to = ([127, 0, 0, 1], forwarded.local).into();
        let mut stream = socket.connect(to).await.expect("the forwarded port");
        let (mut reader, mut writer) = stream.split();
        let upload = async {
            // More than all buffers hold: some of it is never taken.
            let _ = writer.write_all(&vec![b'q'; 20_000_000]).await;
        };
        let download = async {
            tokio::time::sleep(Duration::from_millis(800)).await;
            let (mut arrived, mut buffer) = (0, vec![0; 65536]);
            while let Ok(read @ 1..) = reader.read(&mut buffer).await {
                arrived += read;
            }
            arrived
        };
        let ((), arrived) = tokio::join!(upload, download);
        assert_eq!(arrived, ANSWER, "{protocol:?}");
        forwarded.stop().await;
    }
}

#[tokio::test]
async fn a_stuck_connection_does_not_hold_up_the_others() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let stuck_port = listener.local_addr().expect("an address").port();
    let _never_read = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    let echo = reversing_server().await;
    let (server, _) = serve().await;
    for protocol in PROTOCOLS {
        let url = server.port_forward_url(request()).expect("an URL");
        let stop = CancellationToken::new();
        let bind = || async { TcpListener::bind("127.0.0.1:0").await.expect("a free port") };
        let (one, two) = (bind().await, bind().await);
        let addresses = [&one, &two].map(|it| it.local_addr().expect("an address"));
        let session = tokio::spawn({
            let stop = stop.clone();
            async move {
                let forwards = vec![
                    Forward {
                        listener: one,
                        port: stuck_port,
                    },
                    Forward {
                        listener: two,
                        port: echo,
                    },
                ];
                port_forward(&url, &over(protocol), forwards, stop, |_| {}).await
            }
        });
        let stuck = TcpStream::connect(addresses[0]).await;
        let mut stuck = stuck.expect("the stuck port");
        let flood = async {
            let chunk = vec![0; 65536];
            while stuck.write_all(&chunk).await.is_ok() {}
        };
        let full = tokio::time::timeout(Duration::from_secs(1), flood).await;
        assert!(full.is_err(), "somebody swallowed it all");
        let other = TcpStream::connect(addresses[1]).await;
        let mut other = other.expect("the other port");
        other.write_all(b"abc").await.expect("a connection");
        other.shutdown().await.expect("a connection");
        let mut answer = String::new();
        tokio::time::timeout(Duration::from_secs(5), other.read_to_string(&mut answer))
            .await
            .expect("the other connection is stuck too")
            .expect("an answer");
        assert_eq!(answer, "cba");
        stop.cancel();
        session.await.expect("no panic").expect("ended by us");
    }
}

#[tokio::test]
async fn a_port_nobody_listens_on_is_explained() {
    let (server, _) = serve().await;
    // Bound and dropped: nobody listens there now.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    for protocol in PROTOCOLS {
        let url = server.port_forward_url(request()).expect("an URL");
        let forwarded = Forwarded::start(url, protocol, port).await;
        let mut answer = Vec::new();
        let done = forwarded.connect().await.read_to_end(&mut answer).await;
        done.expect("a clean end");
        assert_eq!(answer, b"");
        fixture::eventually("the report", || {
            let events = forwarded.events.lock().expect("no panic");
            events.iter().any(|event| match event {
                ForwardEvent::Failed { reason, .. } => {
                    reason.contains("to pod p") && reason.contains("refused")
                }
                ForwardEvent::Accepted { .. } => false,
            })
        })
        .await;
        forwarded.stop().await;
    }
}
