//! Sessions with another implementation of WebSocket at the other end.

use futures_util::{SinkExt, StreamExt};
use orlop_streaming::PortForwardRequest;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::fixture::{command, serve};

type Socket = WebSocketStream<TcpStream>;

/// Connects with one protocol on offer, or none.
async fn connect(url: &str, protocol: Option<&str>) -> Socket {
    let mut request = url
        .replace("http://", "ws://")
        .into_client_request()
        .expect("an URL");
    if let Some(protocol) = protocol {
        let protocol = protocol.parse().expect("a header");
        request
            .headers_mut()
            .insert("Sec-WebSocket-Protocol", protocol);
    }
    let address = request.uri().authority().expect("an authority").to_string();
    let stream = TcpStream::connect(address).await.expect("the server");
    let (socket, reply) = tokio_tungstenite::client_async(request, stream)
        .await
        .expect("an upgrade");
    let chosen = reply.headers().get("Sec-WebSocket-Protocol");
    assert_eq!(
        chosen.map(|chosen| chosen.to_str().expect("text")),
        protocol
    );
    socket
}

/// All messages up to the server's close.
async fn read_all(socket: &mut Socket) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(message) = socket.next().await {
        match message.expect("no error before the close") {
            Message::Close(reason) => {
                assert_eq!(reason.map(|reason| u16::from(reason.code)), Some(1000));
            }
            message => messages.push(message),
        }
    }
    messages
}

fn binary(bytes: &[u8]) -> Message {
    Message::Binary(bytes.to_vec().into())
}

/// The data of one channel.
fn channel(messages: &[Message], channel: u8) -> String {
    let data = messages.iter().filter_map(|message| match message {
        Message::Binary(bytes) if bytes[0] == channel => Some(&bytes[1..]),
        _ => None,
    });
    String::from_utf8(data.collect::<Vec<_>>().concat()).expect("text")
}

#[tokio::test]
async fn channels_carry_a_session() {
    let (server, _) = serve().await;
    for (protocol, result) in [
        (Some("v5.channel.k8s.io"), "NonZeroExitCode"),
        (Some("v4.channel.k8s.io"), "NonZeroExitCode"),
        (Some("channel.k8s.io"), "exit status 4"),
        (None, "exit status 4"),
    ] {
        let script = command(&["sh", "-c", "echo out; echo err >&2; exit 4"]);
        let mut socket = connect(&server.exec_url(script).expect("an URL"), protocol).await;
        let messages = read_all(&mut socket).await;
        // An empty message on the first channel tells that all is set up.
        assert_eq!(messages[0], binary(&[1]), "{protocol:?}");
        assert_eq!(channel(&messages, 1), "out\n", "{protocol:?}");
        assert_eq!(channel(&messages, 2), "err\n", "{protocol:?}");
        let told = channel(&messages, 3);
        assert!(told.contains(result), "{protocol:?}: {told}");
        assert_eq!(told.starts_with('{'), result == "NonZeroExitCode");
    }
}

#[tokio::test]
async fn base64_protocols_speak_text() {
    let (server, _) = serve().await;
    let mut request = command(&["head", "-c", "5"]);
    request.stdin = true;
    let url = server.exec_url(request).expect("an URL");
    let mut socket = connect(&url, Some("v4.base64.channel.k8s.io")).await;
    let done = socket.send(Message::text("0aGVsbG8=")).await;
    done.expect("a reader");
    let messages = read_all(&mut socket).await;
    assert_eq!(messages[0], Message::text("1"));
    assert!(
        messages.contains(&Message::text("1aGVsbG8=")),
        "{messages:?}"
    );
}

#[tokio::test]
async fn input_can_be_fragmented_pinged_and_closed() {
    let (server, _) = serve().await;
    let mut request = command(&["cat"]);
    request.stdin = true;
    let url = server.exec_url(request).expect("an URL");
    let mut socket = connect(&url, Some("v5.channel.k8s.io")).await;
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
    for (data, opcode, last) in [
        (&b"\x00one "[..], Data::Binary, false),
        (b"two ", Data::Continue, false),
        (b"three", Data::Continue, true),
    ] {
        let frame = Frame::message(data.to_vec(), OpCode::Data(opcode), last);
        socket.send(Message::Frame(frame)).await.expect("a reader");
        let done = socket.send(Message::Ping(b"there?".to_vec().into())).await;
        done.expect("a reader");
    }
    socket.send(binary(&[255, 0])).await.expect("a reader");
    let messages = read_all(&mut socket).await;
    assert_eq!(channel(&messages, 1), "one two three");
    let pongs = messages
        .iter()
        .filter(|message| matches!(message, Message::Pong(_)))
        .count();
    assert_eq!(pongs, 3);
}

#[tokio::test]
async fn a_terminals_size_comes_over_its_channel() {
    let (server, _) = serve().await;
    let mut request = command(&["sh", "-c", "read line; stty size"]);
    (request.tty, request.stdin, request.stderr) = (true, true, false);
    let url = server.exec_url(request).expect("an URL");
    let mut socket = connect(&url, Some("v4.channel.k8s.io")).await;
    socket
        .send(binary(b"\x04{\"Width\":99,\"Height\":22}"))
        .await
        .expect("a reader");
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    socket.send(binary(b"\x00\r")).await.expect("a reader");
    let messages = read_all(&mut socket).await;
    assert!(channel(&messages, 1).contains("22 99"), "{messages:?}");
}

#[tokio::test]
async fn ports_have_a_pair_of_channels_each() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let open = listener.local_addr().expect("an address").port();
    let unused = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let shut = unused.local_addr().expect("an address").port();
    drop(unused);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
            });
        }
    });
    let (server, _) = serve().await;
    let request = PortForwardRequest {
        pod_id: "p".to_owned(),
        ports: vec![open, shut],
    };
    let url = server.port_forward_url(request).expect("an URL");
    let mut socket = connect(&url, Some("v4.channel.k8s.io")).await;
    socket.send(binary(b"\x00hello")).await.expect("a reader");
    let mut seen: [Vec<u8>; 4] = Default::default();
    let complete = |seen: &[Vec<u8>; 4]| seen[0].ends_with(b"hello") && seen[3].len() > 2;
    while !complete(&seen) {
        let message = socket.next().await.expect("more").expect("no error");
        let [channel, data @ ..] = &message.into_data()[..] else {
            continue;
        };
        seen[usize::from(*channel)].extend(data);
    }
    assert_eq!(seen[0], [&open.to_le_bytes()[..], b"hello"].concat());
    assert_eq!(seen[1], open.to_le_bytes());
    assert_eq!(seen[2], shut.to_le_bytes());
    assert_eq!(seen[3][..2], shut.to_le_bytes());
    assert!(String::from_utf8_lossy(&seen[3][2..]).contains("error forwarding port"));
}
