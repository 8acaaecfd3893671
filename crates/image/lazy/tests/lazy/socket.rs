//! What a server takes from who connects.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use orlop_keeper_protocol::{Body, Frame, FrameBuffer, LAZY_SOCKET_NAME, LazyHello, LazyReady};
use orlop_testkit::Starved;

use crate::support::Node;

fn connect(node: &Node) -> UnixStream {
    let socket = UnixStream::connect(node.place.directory.join(LAZY_SOCKET_NAME)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    socket
}

fn frame(socket: &UnixStream, buffer: &mut FrameBuffer) -> Frame {
    let mut bytes = [0; 4096];
    loop {
        if let Some(frame) = buffer.pop().unwrap() {
            return frame;
        }
        let (count, fds) = orlop_keeper_protocol::recv(socket, &mut bytes).unwrap();
        assert!(count > 0, "it hung up");
        buffer.push(&bytes[..count], fds);
    }
}

#[test]
fn what_a_newer_daemon_says_is_refused_and_the_rest_is_done() {
    let node = node!();
    let mut socket = connect(&node);
    let hello = LazyHello { version: 99 };
    let mut strange = Frame::encode(&hello, 7, 0).unwrap();
    strange[4..6].copy_from_slice(&9999_u16.to_le_bytes());
    socket.write_all(&strange).unwrap();
    socket
        .write_all(&Frame::encode(&hello, 8, 0).unwrap())
        .unwrap();
    let mut buffer = FrameBuffer::new();
    let refused = frame(&socket, &mut buffer);
    assert_eq!(
        (refused.request, refused.kind),
        (7, orlop_keeper_protocol::Failure::KIND)
    );
    let welcome = frame(&socket, &mut buffer);
    assert_eq!((welcome.request, welcome.kind), (8, LazyReady::KIND));
    assert_eq!(welcome.fds.len(), 2);
}

#[test]
fn who_talks_nonsense_is_hung_up_on() {
    let node = node!();
    for nonsense in [&[0xff; 64][..], &[12, 0, 0, 0, 45, 1, 9, 0, 1, 0, 0, 0]] {
        let mut socket = connect(&node);
        socket.write_all(nonsense).unwrap();
        let mut byte = [0];
        let end = socket.read(&mut byte);
        let reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(
            end.as_ref().map_or_else(reset, |count| *count == 0),
            "{end:?}"
        );
    }
    // Its fields are cut short: a request that is refused, and no more.
    let mut socket = connect(&node);
    socket
        .write_all(&[3, 0, 0, 0, 47, 1, 0, 0, 1, 0, 0, 0, 1, 0, 9])
        .unwrap();
    let refused = frame(&socket, &mut FrameBuffer::new());
    assert_eq!(refused.kind, orlop_keeper_protocol::Failure::KIND);
    assert_eq!(node.server().list().unwrap(), []);
}

#[test]
fn connections_are_bounded() {
    let node = node!();
    let crowd: Vec<_> = (0..40).map(|_| connect(&node)).collect();
    let closed = crowd.iter().filter(|socket| {
        let mut socket = *socket;
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        matches!(socket.read(&mut [0]), Ok(0))
    });
    assert!(closed.count() >= 40 - 16);
    drop(crowd);
    assert_eq!(node.server().list().unwrap(), []);
}

#[test]
fn without_descriptors_for_who_connects_it_takes_no_processor() {
    let node = node!();
    let starved = Starved::new(node.server().pid());
    let mut socket = connect(&node);
    let hello = LazyHello {
        version: orlop_keeper_protocol::LAZY_VERSION,
    };
    socket
        .write_all(&Frame::encode(&hello, 1, 0).unwrap())
        .unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert!(starved.share() < 0.1, "{}", starved.share());
    drop(starved);
    let welcome = frame(&socket, &mut FrameBuffer::new());
    assert_eq!((welcome.request, welcome.kind), (1, LazyReady::KIND));
}
