//! What the server does with clients that err or mean harm.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use flate2::{Compress, Compression, FlushCompress};
use orlop_streaming::{Config, PortForwardRequest, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fixture::{command, serve, serve_with};

const SPDY: &str = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
const V4: &str = "X-Stream-Protocol-Version: v4.channel.k8s.io\r\n";
const WEBSOCKET: &str = "Connection: upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Header blocks of another implementation, with the dictionary, in one context: `streamtype`
/// being `error`, `stdin`, `stdout`, `stderr`.
const BLOCKS: [&[u8]; 4] = [
    &[
        0x78, 0xf9, 0xe3, 0xc6, 0xa7, 0xc2, 0x02, 0xa6, 0x23, 0x46, 0x70, 0x3a, 0x2b, 0x29, 0x4a,
        0x4d, 0xcc, 0x85, 0x16, 0x25, 0xac, 0xa9, 0xa0, 0x80, 0x06, 0x00, 0x00, 0x00, 0xff, 0xff,
    ],
    &[
        0xc2, 0x2e, 0x55, 0x5c, 0x02, 0xcc, 0x2e, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff,
    ],
    &[
        0xc2, 0x2a, 0x05, 0x4c, 0xe7, 0x29, 0xf9, 0xa5, 0x25, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff,
    ],
    &[0xc2, 0x29, 0x07, 0x34, 0x14, 0x00, 0x00, 0x00, 0xff, 0xff],
];

/// Sends a request as it is and answers the connection with the first line of the reply.
async fn ask(url: &str, method: &str, headers: &str) -> (TcpStream, String) {
    let (address, path) = url
        .strip_prefix("http://")
        .and_then(|url| url.split_once('/'))
        .expect("an URL");
    let mut stream = TcpStream::connect(address).await.expect("the server");
    let request = format!("{method} /{path} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n");
    let done = stream.write_all(request.as_bytes()).await;
    done.expect("the server reads");
    let mut reply = Vec::new();
    while !reply.ends_with(b"\r\n\r\n") {
        let byte = stream.read_u8().await.expect("a whole reply");
        reply.push(byte);
    }
    let reply = String::from_utf8(reply).expect("text");
    (stream, reply.lines().next().expect("a status").to_owned())
}

async fn status(url: &str, method: &str, headers: &str) -> u16 {
    let (_, line) = ask(url, method, headers).await;
    line.split(' ')
        .nth(1)
        .expect("a status")
        .parse()
        .expect("a number")
}

fn exec_url(server: &Server, stdin: bool) -> String {
    let mut request = command(&["sleep", "60"]);
    request.stdin = stdin;
    server.exec_url(request).expect("an URL")
}

fn control(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80, 3];
    frame.extend(kind.to_be_bytes());
    frame.extend((payload.len() as u32).to_be_bytes());
    frame.extend(payload);
    frame
}

fn syn_stream(id: u32, block: &[u8]) -> Vec<u8> {
    let mut payload = id.to_be_bytes().to_vec();
    payload.extend([0; 6]);
    payload.extend(block);
    control(1, &payload)
}

/// A session whose streams are open, spoken by hand.
async fn open_session(server: &Server) -> TcpStream {
    let (mut stream, line) = ask(&exec_url(server, true), "POST", &format!("{SPDY}{V4}")).await;
    assert!(line.contains("101"), "{line}");
    for (index, block) in BLOCKS.into_iter().enumerate() {
        stream
            .write_all(&syn_stream(index as u32 * 2 + 1, block))
            .await
            .expect("a reader");
    }
    stream
}

/// Reads until the server ends the connection.
async fn ended(mut stream: TcpStream) {
    let mut sink = vec![0; 65536];
    let end = async {
        loop {
            match stream.read(&mut sink).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), end)
        .await
        .expect("the connection stays open");
}

#[tokio::test]
async fn requests_that_do_not_fit_get_their_status() {
    let (server, _) = serve().await;
    let url = exec_url(&server, false);
    let base = url.split("/exec/").next().expect("a base");
    let token = url.rsplit('/').next().expect("a token");
    let good = format!("{SPDY}{V4}");
    assert_eq!(
        status(&format!("{base}/exec/unknown"), "POST", &good).await,
        404
    );
    assert_eq!(
        status(&format!("{base}/attach/{token}"), "POST", &good).await,
        404
    );
    assert_eq!(status(&format!("{base}/"), "GET", &good).await, 404);
    assert_eq!(status(&url, "DELETE", &good).await, 400);
    assert_eq!(status(&url, "GET", "").await, 426);
    assert_eq!(status(&url, "GET", "Upgrade: SPDY/3.1\r\n").await, 426);
    assert_eq!(
        status(&url, "GET", "Connection: Upgrade\r\nUpgrade: h2c\r\n").await,
        426
    );
    let unknown = format!("{SPDY}X-Stream-Protocol-Version: v99.channel.k8s.io\r\n");
    assert_eq!(status(&url, "POST", &unknown).await, 403);
    let unknown = format!("{WEBSOCKET}Sec-WebSocket-Protocol: chat\r\n");
    assert_eq!(status(&url, "GET", &unknown).await, 403);
    assert_eq!(
        status(&url, "GET", &WEBSOCKET.replace("13", "8")).await,
        400
    );
    assert_eq!(
        status(&url, "GET", &WEBSOCKET.replace("Key: d", "Key: ")).await,
        400
    );
    // None of these has used the token up; the first good request does.
    assert_eq!(status(&url, "POST", &good).await, 101);
    assert_eq!(status(&url, "POST", &good).await, 404);
}

#[tokio::test]
async fn huge_and_endless_requests_are_cut_off() {
    let (server, _) = serve().await;
    let url = exec_url(&server, false);
    let huge = format!("X-Filler: {}\r\n", "a".repeat(100_000));
    assert_eq!(status(&url, "GET", &huge).await, 431);
}

#[tokio::test]
async fn malformed_frames_end_the_connection_and_the_process() {
    let (server, backend) = serve().await;
    let mut deflate = Compress::new(Compression::best(), true);
    let mut bomb = Vec::with_capacity(64 * 1024);
    let zeros = vec![0; 8 << 20];
    deflate
        .compress_vec(&zeros, &mut bomb, FlushCompress::Sync)
        .expect("compression");
    let cases = [
        ("another version", vec![0x80, 2, 0, 1, 0, 0, 0, 0]),
        ("an HTTP request", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        (
            "a control frame of 16 MiB",
            vec![0x80, 3, 0, 4, 0, 255, 255, 255],
        ),
        (
            "a header block that is not compressed",
            syn_stream(9, b"no zlib at all"),
        ),
        (
            "a zlib bomb",
            syn_stream(9, &bomb[..bomb.len().min(16_000)]),
        ),
        ("an old stream number", syn_stream(1, b"")),
        (
            "data on a stream nobody opened",
            vec![0, 0, 0, 99, 0, 0, 0, 1, b'x'],
        ),
        ("data on stream 0", vec![0, 0, 0, 0, 0, 0, 0, 1, b'x']),
        ("a window beyond all bounds", {
            let update = control(9, &[0, 0, 0, 5, 0x7f, 255, 255, 255]);
            [update.clone(), update].concat()
        }),
    ];
    for (count, (what, frame)) in cases.into_iter().enumerate() {
        let mut stream = open_session(&server).await;
        // The process is known to run once the server has replied to all streams.
        tokio::time::sleep(Duration::from_millis(100)).await;
        stream.write_all(&frame).await.expect("a reader");
        tokio::time::timeout(Duration::from_secs(10), ended(stream))
            .await
            .expect(what);
        backend.wait_for_kills(count + 1, what).await;
    }
}

#[tokio::test]
async fn streams_that_never_come_are_not_waited_for() {
    let config = Config {
        creation_timeout: Duration::from_millis(200),
        ..Config::default()
    };
    let (server, _) = serve_with(config).await;
    let (mut stream, _) = ask(&exec_url(&server, false), "POST", &format!("{SPDY}{V4}")).await;
    let done = stream.write_all(&syn_stream(1, BLOCKS[0])).await;
    done.expect("a reader");
    let start = Instant::now();
    ended(stream).await;
    let took = start.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let config = Config {
        idle_timeout: Duration::from_millis(300),
        ..Config::default()
    };
    let (server, backend) = serve_with(config).await;
    let start = Instant::now();
    ended(open_session(&server).await).await;
    assert!(
        start.elapsed() >= Duration::from_millis(300),
        "closed too early"
    );
    backend.wait_for_kills(1, "the killing").await;
}

#[tokio::test]
async fn a_flood_of_input_that_nobody_reads_is_held_back() {
    let (server, _) = serve().await;
    let mut stream = open_session(&server).await;
    let mut frame = vec![0, 0, 0, 3, 0, 0x10, 0, 0];
    frame.extend(vec![b'x'; 0x10_0000]);
    let mut sent = 0_usize;
    let flood = async {
        loop {
            let done = stream.write_all(&frame).await;
            done.expect("the connection holds");
            sent += frame.len();
        }
    };
    let stopped = tokio::time::timeout(Duration::from_secs(1), flood).await;
    assert!(stopped.is_err());
    // What the kernel's socket buffers take comes on top of what the server does.
    assert!(
        sent < 32 << 20,
        "the server took {sent} bytes for a process that reads none"
    );
}

#[tokio::test]
async fn a_client_that_vanishes_while_it_is_held_back_is_noticed() {
    let (server, backend) = serve().await;
    let mut stream = open_session(&server).await;
    // More than the server keeps for a stream, yet little enough for the socket's buffers.
    let mut frame = vec![0, 0, 0, 3, 0, 0x0c, 0, 0];
    frame.extend(vec![b'x'; 0x0c_0000]);
    stream.write_all(&frame).await.expect("a reader");
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(stream);
    backend.wait_for_kills(1, "the killing").await;
}

#[tokio::test]
async fn a_client_that_asks_without_listening_is_dropped() {
    let (server, backend) = serve().await;
    let mut stream = open_session(&server).await;
    let pings = control(6, &[0, 0, 0, 1]).repeat(10_000);
    let flood = async {
        loop {
            if stream.write_all(&pings).await.is_err() {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), flood)
        .await
        .expect("it is put up with");
    backend.wait_for_kills(1, "the killing").await;
}

#[tokio::test]
async fn thousands_of_streams_are_refused() {
    let (server, _) = serve().await;
    let request = PortForwardRequest {
        pod_id: "p".to_owned(),
        ports: Vec::new(),
    };
    let url = server.port_forward_url(request).expect("an URL");
    let (mut stream, line) = ask(&url, "POST", SPDY).await;
    assert!(line.contains("101"), "{line}");
    let mut deflate = Compress::new(Compression::fast(), true);
    let mut frames = Vec::new();
    for number in 0..5000_u32 {
        let id = number.to_string();
        let mut block = 3_u32.to_be_bytes().to_vec();
        for text in [
            "streamtype",
            "error",
            "port",
            "80",
            "requestid",
            id.as_str(),
        ] {
            block.extend((text.len() as u32).to_be_bytes());
            block.extend(text.as_bytes());
        }
        let mut packed = Vec::with_capacity(256);
        deflate
            .compress_vec(&block, &mut packed, FlushCompress::Sync)
            .expect("compression");
        frames.extend(syn_stream(number * 2 + 1, &packed));
    }
    let (mut reader, mut writer) = stream.split();
    let mut refused = 0;
    let read = async {
        let mut replied = 0;
        while replied + refused < 5000 {
            let mut head = [0; 8];
            let done = reader.read_exact(&mut head).await;
            done.expect("an answer for every stream");
            let mut payload = vec![0; u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize];
            let done = reader.read_exact(&mut payload).await;
            done.expect("a whole frame");
            match head[3] {
                2 => replied += 1,
                3 => refused += 1,
                _ => {}
            }
        }
    };
    let both = async {
        let (write, ()) = tokio::join!(writer.write_all(&frames), read);
        write.expect("a reader");
    };
    tokio::time::timeout(Duration::from_secs(20), both)
        .await
        .expect("all are answered");
    assert!(refused >= 3900, "only {refused} of 5000 were refused");
}

#[tokio::test]
async fn websocket_frames_against_the_rules_end_the_connection() {
    let (server, backend) = serve().await;
    let protocol = "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n";
    let cases: [(&str, &[u8]); 5] = [
        ("not masked", &[0x82, 2, 0, b'x']),
        ("reserved bits", &[0xf2, 0x80, 0, 0, 0, 0]),
        ("a continuation of nothing", &[0x80, 0x81, 0, 0, 0, 0, 0]),
        ("a fragmented ping", &[0x09, 0x80, 0, 0, 0, 0]),
        ("an unknown kind", &[0x87, 0x80, 0, 0, 0, 0]),
    ];
    for (count, (what, frame)) in cases.into_iter().enumerate() {
        let url = exec_url(&server, true);
        let (mut stream, line) = ask(&url, "GET", &format!("{WEBSOCKET}{protocol}")).await;
        assert!(line.contains("101"), "{line}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        stream.write_all(frame).await.expect("a reader");
        tokio::time::timeout(Duration::from_secs(10), ended(stream))
            .await
            .expect(what);
        backend.wait_for_kills(count + 1, what).await;
    }
}

#[tokio::test]
async fn one_peer_that_asks_for_nothing_keeps_nobody_else_out() {
    let config = Config {
        max_idle: 4,
        max_idle_per_peer: 3,
        negotiation_timeout: Duration::from_secs(2),
        ..Config::default()
    };
    let (server, _backend) = serve_with(config).await;
    let from = |host: &str| {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        let local = format!("{host}:0").parse().expect("an address");
        socket.bind(local).expect("a loopback address");
        socket.connect(server.local_addr())
    };
    let mut silent = std::collections::VecDeque::new();
    for _ in 0..4 {
        silent.push_back(from("127.0.0.1").await.expect("the server"));
    }
    // The first one makes room for the last one, and whether it is reset or closed is a matter of time.
    let mut first = silent.pop_front().expect("four of them");
    let answer = first.read(&mut [0]).await;
    assert!(matches!(answer, Ok(0) | Err(_)), "{answer:?}");

    let mut other = from("127.0.0.2").await.expect("the server");
    let request = b"GET /exec/none HTTP/1.1\r\nHost: x\r\n\r\n";
    other.write_all(request).await.expect("the server reads");
    let mut reply = [0; 12];
    other.read_exact(&mut reply).await.expect("an answer");
    assert_eq!(&reply, b"HTTP/1.1 404");

    // Asking for what there is not buys no more time either.
    let asking = async {
        while other.write_all(request).await.is_ok() {
            let gone = other.read(&mut [0; 4096]).await;
            if matches!(gone, Ok(0) | Err(_)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), asking).await;
    ended.expect("the connection stays for ever");
    for mut one in silent {
        let mut byte = [0];
        let read = one.read(&mut byte);
        let closed = tokio::time::timeout(Duration::from_secs(20), read).await;
        let closed = closed.expect("silence is served for ever");
        assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    }
    let mut again = from("127.0.0.1").await.expect("the server");
    again.write_all(request).await.expect("the server reads");
    again.read_exact(&mut reply).await.expect("an answer");
}

#[tokio::test]
async fn a_session_too_many_is_refused_and_its_url_stays_good() {
    let config = Config {
        max_sessions: 1,
        ..Config::default()
    };
    let (server, _backend) = serve_with(config).await;
    let url = || server.exec_url(command(&["cat"])).expect("an URL");
    let headers = format!("{SPDY}{V4}");
    let (first, line) = ask(&url(), "POST", &headers).await;
    assert!(line.contains("101"), "{line}");
    let second = url();
    assert_eq!(status(&second, "POST", &headers).await, 503);
    drop(first);
    orlop_testkit::wait_until!(
        Duration::from_secs(20),
        status(&second, "POST", &headers).await == 101,
        "the place is never free again"
    );
}
