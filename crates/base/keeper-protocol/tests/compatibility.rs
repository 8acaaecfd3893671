//! What was once sent stays readable, and what is not yet known does no harm.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use orlop_keeper_protocol::{
    Body, Create, ExitStatus, Exited, Frame, FrameBuffer, HEADER_LEN, List, MAX_PAYLOAD, Malformed,
    Message, RuntimeCall, Start,
};

/// A `Start` frame as version 1 of the protocol wrote it.
const RECORDED_START: &[u8] = b"\x25\x00\x00\x00\x07\x00\x00\x00\x2a\x00\x00\x00\
    \x01\x00\x02\x00\x00\x00c1\
    \x02\x00\x17\x00\x00\x00\
    \x01\x00\x01\x00\x00\x00r\
    \x04\x00\x04\x00\x00\x00\xe8\x03\x00\x00\
    \x03\x00\x00\x00\x00\x00";

/// An `Exited` frame as version 1 of the protocol wrote it.
const RECORDED_EXITED: &[u8] = b"\x3e\x00\x00\x00\xc8\x00\x00\x00\x00\x00\x00\x00\
    \x01\x00\x02\x00\x00\x00c1\
    \x02\x00\x29\x00\x00\x00\
    \x01\x00\x04\x00\x00\x00\x89\x00\x00\x00\
    \x02\x00\x04\x00\x00\x00\x09\x00\x00\x00\
    \x03\x00\x01\x00\x00\x00\x01\
    \x04\x00\x08\x00\x00\x00\x15\xcd\x5b\x07\x00\x00\x00\x00\
    \x63\x00\x01\x00\x00\x00?";

fn only_frame(bytes: &[u8]) -> Frame {
    let mut buffer = FrameBuffer::new();
    buffer.push(bytes, []);
    let frame = buffer.pop().unwrap().unwrap();
    assert!(buffer.pop().unwrap().is_none());
    frame
}

#[test]
fn a_recorded_request_is_still_understood() {
    let frame = only_frame(RECORDED_START);
    assert_eq!((frame.kind, frame.request), (Start::KIND, 42));
    let start = Start::decode(&frame.payload).unwrap();
    assert_eq!(start.container, "c1");
    assert_eq!(start.call.argv, ["r"]);
    assert_eq!(start.call.timeout_ms, 1000);
}

#[test]
fn a_recorded_event_with_a_field_from_the_future_is_understood() {
    let frame = only_frame(RECORDED_EXITED);
    assert_eq!(frame.kind, Exited::KIND);
    let exited = Exited::decode(&frame.payload).unwrap();
    let status = ExitStatus {
        code: 137,
        signal: 9,
        oom: true,
        time_ns: 123_456_789,
    };
    assert_eq!(exited.status, status);
}

#[test]
fn today_s_bytes_equal_the_recorded_ones() {
    let exited = Exited {
        container: "c1".into(),
        status: ExitStatus {
            code: 137,
            signal: 9,
            oom: true,
            time_ns: 123_456_789,
        },
    };
    let bytes = Frame::encode(&exited, 0, 0).unwrap();
    // All but the header's length and the field from the future.
    let known = RECORDED_EXITED.len() - 7;
    assert_eq!(bytes[4..], RECORDED_EXITED[4..known]);
}

#[test]
fn every_field_of_a_large_request_survives_the_way() {
    let create = Create {
        container: "c".repeat(64),
        call: RuntimeCall {
            argv: vec!["runc".into(), String::new().into(), "create".into()],
            cwd: "/b".into(),
            log: "/b/log".into(),
            timeout_ms: 60_000,
            protected: true,
            until_ns: 1 << 50,
        },
        pid_file: "/b/pid".into(),
        log_path: "/var/log/pods/x/0.log".into(),
        log_policy: orlop_keeper_protocol::LogPolicy::Drop,
        tty: true,
        stdin: true,
        stdin_once: true,
        oom_cgroup: "/sys/fs/cgroup/memory/x".into(),
        rows: 24,
        columns: 80,
        log_line_max: 4096,
        running: false,
        log_dir: "/var/log/pods/x".into(),
        log_rate: 65_536,
        log_size: 1 << 40,
        streams: true,
        fifo: "/run/orlop/c/exec.fifo".into(),
        attaches: true,
    };
    let frame = only_frame(&Frame::encode(&create, 7, 0).unwrap());
    assert_eq!(Create::decode(&frame.payload).unwrap(), create);
}

#[test]
fn frames_arrive_whole_whatever_the_pieces() {
    let bytes = [
        Frame::encode(&List {}, 1, 0).unwrap(),
        RECORDED_START.to_vec(),
    ]
    .concat();
    for piece in 1..bytes.len() {
        let mut buffer = FrameBuffer::new();
        let mut seen = Vec::new();
        for chunk in bytes.chunks(piece) {
            buffer.push(chunk, []);
            while let Some(frame) = buffer.pop().unwrap() {
                seen.push(frame.request);
            }
        }
        assert_eq!(seen, [1, 42], "in pieces of {piece}");
    }
}

#[test]
fn hostile_frames_are_refused() {
    let mut huge = Frame::encode(&List {}, 1, 0).unwrap();
    huge[0..4].copy_from_slice(&(MAX_PAYLOAD as u32 + 1).to_le_bytes());
    let mut buffer = FrameBuffer::new();
    buffer.push(&huge, []);
    assert_eq!(buffer.pop().unwrap_err(), Malformed::Oversized);

    let mut buffer = FrameBuffer::new();
    buffer.push(&Frame::encode(&List {}, 1, 1).unwrap(), []);
    assert_eq!(buffer.pop().unwrap_err(), Malformed::MissingFds);

    for cut in HEADER_LEN + 1..RECORDED_START.len() {
        // A shorter payload either ends between two fields or is refused; it never panics.
        let _ = Start::decode(&RECORDED_START[HEADER_LEN..cut]);
    }
    assert_eq!(
        Start::decode(&RECORDED_START[HEADER_LEN..HEADER_LEN + 7]),
        Err(Malformed::Truncated)
    );
}

#[test]
fn descriptors_belong_to_their_frame() {
    let (here, there) = UnixStream::pair().unwrap();
    let (mut first, first_end) = UnixStream::pair().unwrap();
    let (mut second, second_end) = UnixStream::pair().unwrap();
    for (request, end) in [(1, &first_end), (2, &second_end)] {
        let bytes = Frame::encode(&List {}, request, 1).unwrap();
        let sent = orlop_keeper_protocol::send(&here, &bytes, &[end.as_fd()]).unwrap();
        assert_eq!(sent, bytes.len());
    }
    first.write_all(b"1").unwrap();
    second.write_all(b"2").unwrap();

    let mut buffer = FrameBuffer::new();
    let mut frames: Vec<Frame> = Vec::new();
    while frames.len() < 2 {
        let mut bytes = [0; 64];
        let (count, fds) = orlop_keeper_protocol::recv(&there, &mut bytes).unwrap();
        buffer.push(&bytes[..count], fds);
        while let Some(frame) = buffer.pop().unwrap() {
            frames.push(frame);
        }
    }
    for frame in frames {
        let [fd]: [OwnedFd; 1] = frame.fds.try_into().unwrap();
        let mut byte = [0];
        rustix::io::read(&fd, &mut byte).unwrap();
        assert_eq!(u32::from(byte[0] - b'0'), frame.request);
    }
}
