//! A keeper of today and a daemon of version 1: bytes as that daemon sent them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::support::{LIMIT, Pod};

/// `Hello { version: 1 }`, request 1.
const HELLO: &[u8] = b"\x0a\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\
    \x01\x00\x04\x00\x00\x00\x01\x00\x00\x00";

/// `Subscribe {}`, request 2.
const SUBSCRIBE: &[u8] = b"\x00\x00\x00\x00\x04\x00\x00\x00\x02\x00\x00\x00";

/// `Kill { container: "c1", signal: 9 }`, request 3, with a field 99 that nobody knows.
const KILL: &[u8] = b"\x19\x00\x00\x00\x08\x00\x00\x00\x03\x00\x00\x00\
    \x01\x00\x02\x00\x00\x00c1\
    \x02\x00\x04\x00\x00\x00\x09\x00\x00\x00\
    \x63\x00\x01\x00\x00\x00?";

/// A request of kind 99, which does not exist, request 4.
const UNKNOWN: &[u8] = b"\x00\x00\x00\x00\x63\x00\x00\x00\x04\x00\x00\x00";

/// `List {}`, request 5.
const LIST: &[u8] = b"\x00\x00\x00\x00\x03\x00\x00\x00\x05\x00\x00\x00";

/// A frame's kind, request and fields.
type Frame = (u16, u32, Vec<(u16, Vec<u8>)>);

fn read_frame(socket: &mut UnixStream) -> Frame {
    let mut header = [0; 12];
    socket.read_exact(&mut header).unwrap();
    let length = u32::from_le_bytes(header[0..4].try_into().unwrap());
    let mut payload = vec![0; length as usize];
    socket.read_exact(&mut payload).unwrap();
    let mut fields = Vec::new();
    let mut rest = payload.as_slice();
    while !rest.is_empty() {
        let tag = u16::from_le_bytes(rest[0..2].try_into().unwrap());
        let length = u32::from_le_bytes(rest[2..6].try_into().unwrap()) as usize;
        fields.push((tag, rest[6..6 + length].to_vec()));
        rest = &rest[6 + length..];
    }
    let kind = u16::from_le_bytes(header[4..6].try_into().unwrap());
    (
        kind,
        u32::from_le_bytes(header[8..12].try_into().unwrap()),
        fields,
    )
}

fn field(frame: &Frame, tag: u16) -> &[u8] {
    let mut fields = frame.2.iter();
    &fields.find(|field| field.0 == tag).unwrap().1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_served() {
    let pod = Pod::new().await;
    pod.run_script("c1", "sleep 1000").await;
    let mut socket = UnixStream::connect(pod.pod_dir().join("keeper.sock")).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    for request in [HELLO, SUBSCRIBE, KILL, UNKNOWN] {
        socket.write_all(request).unwrap();
    }
    let welcome = read_frame(&mut socket);
    assert_eq!((welcome.0, welcome.1), (102, 1));
    assert_eq!(field(&welcome, 1), 1u32.to_le_bytes());
    assert_eq!(field(&welcome, 2), pod.keeper.pod_id().as_bytes());
    assert_eq!(field(&welcome, 3), pod.keeper_pid.to_le_bytes());
    for expected in [(100, 2), (100, 3)] {
        let done = read_frame(&mut socket);
        assert_eq!((done.0, done.1), expected);
    }
    // The killed container may have ended before the keeper reads the request after the kill.
    let mut frames = [read_frame(&mut socket), read_frame(&mut socket)];
    frames.sort_by_key(|frame| frame.0);
    let [failure, exited] = frames;
    assert_eq!(
        (failure.0, failure.1, field(&failure, 1)),
        (101, 4, &[5, 0][..])
    );
    assert_eq!((exited.0, exited.1), (200, 0));
    assert_eq!(field(&exited, 1), b"c1");
    let code_and_signal = b"\x01\x00\x04\x00\x00\x00\x89\x00\x00\x00\x02\x00\x04\x00\x00\x00\x09";
    assert!(field(&exited, 2).starts_with(code_and_signal));

    socket.write_all(LIST).unwrap();
    let listing = read_frame(&mut socket);
    assert_eq!((listing.0, listing.1), (103, 5));
    assert!(
        field(&listing, 1)
            .starts_with(b"\x01\x00\x02\x00\x00\x00c1\x02\x00\x02\x00\x00\x00\x04\x00")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_talks_nonsense_is_dropped_and_hurts_nobody() {
    let pod = Pod::new().await;
    let path = pod.pod_dir().join("keeper.sock");
    for nonsense in [&b"GET / HTTP/1.1\r\nHost: keeper\r\n\r\n"[..], &[0xff; 64]] {
        let mut socket = UnixStream::connect(&path).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket.write_all(nonsense).unwrap();
        let mut answer = Vec::new();
        // Closed, or reset for the unread rest.
        let _ = socket.read_to_end(&mut answer);
        assert!(answer.is_empty());
    }
    assert!(pod.keeper.list().await.is_ok());
}
